from __future__ import annotations

import types
from typing import Any

import cloudpickle
import pytest

import fibernb as fnb
from fibernb.client import functions
from fibernb.client.session import Session
from fibernb.core import messages as m
from fibernb.errors import ConfigError, SerializationError
from tests.client.fake_hub import FakeHub


def notebook(source: str) -> dict[str, Any]:
    """The namespace of a notebook in which this was run: its functions go by value."""
    namespace = types.ModuleType("__main__").__dict__
    exec(source, namespace)
    return namespace


def test_a_function_follows_the_notebook(session: Session, hub: FakeHub) -> None:
    cells = notebook("factor = 2\ndef scaled(x):\n    return factor * x")
    scaled = fnb.remote(cells["scaled"])
    assert fnb.get(scaled.remote(3)) == 6
    cells["factor"] = 5
    assert fnb.get(scaled.remote(3)) == 6, "the code is looked at once a cell only"
    functions.next_epoch()
    assert fnb.get(scaled.remote(3)) == 15
    functions.next_epoch()
    assert fnb.get(scaled.options(name="again").remote(3)) == 15
    assert len(hub.of(m.DefineFunction)) == 2, "what has not changed is not sent again"


def test_a_function_may_call_itself(session: Session) -> None:
    cells = notebook("def depth(n):\n    return down if n else 0")
    down = cells["down"] = fnb.remote(cells["depth"])
    assert isinstance(fnb.get(down.remote(1)), functions.RemoteFunction)


def test_a_remote_function_travels(session: Session) -> None:
    add = fnb.remote(num_cpus=2)(lambda x: x + 1)
    copy = cloudpickle.loads(cloudpickle.dumps(add))
    assert fnb.get(copy.remote(1)) == 2
    assert copy._options == add._options


def test_map_and_starmap(session: Session) -> None:
    given = fnb.put(10)
    assert fnb.get(fnb.remote(abs).map(range(-300, 0))) == list(range(300, 0, -1))
    assert fnb.get(fnb.remote(pow).starmap([(2, 3), (given, 2)])) == [8, 100]
    with pytest.raises(ConfigError, match="2 values"):
        fnb.remote(num_returns=2)(abs).map([1])


def test_a_new_session_gets_the_code_again(session: Session, hub: FakeHub) -> None:
    from fibernb.client import current
    from tests.client.fake_hub import FakeConnector

    work = fnb.remote(abs)
    assert fnb.get(work.remote(-1)) == 1
    other_hub = FakeHub()
    other = Session(FakeConnector(other_hub))
    current.use(other)
    try:
        assert fnb.get(work.remote(-2)) == 2
    finally:
        other.close()
        other_hub.close()
    assert len(other_hub.of(m.DefineFunction)) == 1


def test_arguments_that_cannot_be_pickled_are_named(session: Session) -> None:
    import threading

    with pytest.raises(SerializationError, match=r"args\[0\]"):
        fnb.remote(abs).remote([threading.Lock()])
    assert fnb.get(fnb.remote(abs).remote(-1)) == 1


def test_arguments_by_name(session: Session) -> None:
    number = fnb.remote(lambda text, base: int(text, base) + 1)
    assert fnb.get(number.remote("ff", base=fnb.put(16))) == 256
