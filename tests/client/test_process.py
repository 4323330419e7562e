"""What happens to sessions when their process forks or ends, and what importing costs."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable

import pytest

import fibernb as fnb
from fibernb.client.session import Session
from fibernb.errors import NotConnected
from tests.client.fake_hub import FakeConnector, FakeHub


def in_child(work: Callable[[], str]) -> str:
    """What ``work`` gives in a forked child, which may take ten seconds."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(10, exit=True)
        try:
            os.write(writing, work().encode())
        except BaseException:
            os.write(writing, traceback.format_exc().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


def test_a_forked_child_is_told_that_references_are_its_parents(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    pending, finished = fnb.remote(abs).remote(-1), fnb.put(5)

    def use() -> str:
        messages = [str(fnb.get(finished)), str(session.foreign)]
        for call in (lambda: fnb.get(pending), lambda: session.put(1), pending.cancel, session.status):
            try:
                call()
            except NotConnected as error:
                messages.append(str(error)[:40])
        return "\n".join(messages)

    told = "this reference or cluster was made befor"
    assert in_child(use).split("\n") == ["5", "True", told, told, told, told]
    hub.release_held()
    assert fnb.get(pending) == 1, "the parent goes on"


def test_a_fork_touches_no_descriptor_of_others(hub: FakeHub, connector: FakeConnector) -> None:
    old = Session(connector)
    descriptor = old.line.turns._watched
    old.close()
    with tempfile.TemporaryFile() as file:
        number = os.fstat(file.fileno()).st_ino
        copied = file.fileno() != descriptor
        if copied:
            os.dup2(file.fileno(), descriptor)  # the number is somebody else's now
        assert in_child(lambda: str(os.fstat(descriptor).st_ino)) == str(number)
        if copied:
            os.close(descriptor)


@pytest.mark.parametrize("module", ["asyncio", "IPython", "numpy", "zmq", "msgspec", "threading", "fibernb.client"])
def test_importing_is_cheap(module: str) -> None:
    code = f"import sys; before = set(sys.modules); import fibernb; print({module!r} in set(sys.modules) - before)"
    assert run(code) == "False"


def test_everything_public_is_there() -> None:
    for name in fnb.__all__:
        assert getattr(fnb, name) is not None
    assert callable(fnb.progress)
    with pytest.raises(AttributeError, match="no_such"):
        _ = fnb.no_such


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout.strip()
