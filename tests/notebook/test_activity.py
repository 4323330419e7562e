"""Signs of life while tasks run."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fibernb.client import current
from fibernb.client.session import Session
from fibernb.notebook import activity
from fibernb.notebook.activity import Activity
from tests.notebook.kernel import running_kernel

cell = contextvars.ContextVar("cell", default="")


class Timers:
    """Keeps what is to be called."""

    def __init__(self) -> None:
        self.call: Callable[[], None] | None = None
        self.started = 0

    def start(self, _pause_s: float, call: Callable[[], None]) -> Timers:
        self.call, self.started = call, self.started + 1
        return self

    def cancel(self) -> None:
        self.call = None

    def join(self) -> None:
        """It does not run."""

    def is_set(self) -> bool:
        return self.call is not None

    def fire(self) -> None:
        call, self.call = self.call, None
        assert call is not None
        call()


@pytest.fixture
def pending() -> Iterator[dict[int, str]]:
    """The calls of the session that are not answered."""
    calls: dict[int, str] = {}
    ledger = SimpleNamespace(pending=calls)
    current.use(cast(Session, SimpleNamespace(over=None, books=SimpleNamespace(ledger=ledger))))
    yield calls
    current.use(None)


@pytest.fixture
def signs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cells in which signs of life were given."""
    given: list[str] = []
    monkeypatch.setattr(activity, "_show_nothing", lambda: given.append(cell.get()))
    return given


def test_signs_belong_to_the_latest_cell(pending: dict[int, str], signs: list[str]) -> None:
    timers = Timers()
    tells = Activity(timers.start)
    for name in ("first", "second"):
        cell.set(name)
        tells.begin_cell()
        tells.end_cell()
    assert timers.started == 1
    pending[1] = "call"
    timers.fire()
    timers.fire()
    assert signs == ["second", "second"]


def test_nothing_is_told_when_nothing_runs(pending: dict[int, str], signs: list[str]) -> None:
    timers = Timers()
    tells = Activity(timers.start)
    tells.begin_cell()
    timers.fire()
    assert timers.is_set(), "the cell may make calls yet"
    tells.end_cell()
    timers.fire()
    assert not timers.is_set()
    assert signs == []
    tells.begin_cell()
    assert timers.is_set()


@pytest.mark.parametrize("session", [None, SimpleNamespace(over="the cluster has ended")])
def test_what_has_ended_does_not_run(session: Any, pending: dict[int, str], signs: list[str]) -> None:
    timers = Timers()
    tells = Activity(timers.start)
    current.use(session)
    tells.begin_cell()
    tells.end_cell()
    timers.fire()
    assert (timers.is_set(), signs) == (False, [])


def test_leaving(pending: dict[int, str], signs: list[str]) -> None:
    timers = Timers()
    tells = Activity(timers.start)
    tells.leave()
    tells.begin_cell()
    late = timers.call
    tells.leave()
    assert not timers.is_set()
    pending[1] = "call"
    assert late is not None
    late()
    assert (timers.is_set(), signs) == (False, [])


def test_a_kernel_whose_tasks_run(tmp_path: Path) -> None:
    with running_kernel(tmp_path, FIBERNB_PROGRESS="0") as kernel:
        kernel.run("import fibernb.notebook.activity as activity\nactivity.PERIOD_S = 0.1\n%unload_ext fibernb")
        kernel.run("%load_ext fibernb\n%fiber scale 1\nimport fibernb as fnb, time, pathlib")
        body = "    while not pathlib.Path('end').exists(): time.sleep(0.01)"
        reply = kernel.run(f"@fnb.remote\ndef wait():\n{body}\nref = wait.remote()")
        kernel.wait_until(reply, lambda so_far: len(so_far.of("update_display_data")) > 2)
        (tmp_path / "end").touch()
        last = kernel.run("fnb.get(ref)")
        kernel.messages_for(last, 0.5)
        told = len(reply.messages) + len(last.messages)
        kernel.messages_for(last, 0.5)
        assert len(reply.messages) + len(last.messages) == told
        assert reply.of("display_data") == reply.of("stream") == []
