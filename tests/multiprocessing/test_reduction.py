"""What can be sent, and what arrives."""

from __future__ import annotations

import io
import pickle
import socket
import threading
from multiprocessing import connection as library
from typing import Any

import numpy as np
import pytest

from fibernb.client.cluster import Cluster
from fibernb.multiprocessing import reduction


class Strange:
    """Pickled in a way of its own only where it was registered."""

    def __reduce__(self) -> Any:
        raise TypeError("not like this")


def roundtrip(value: Any) -> Any:
    return reduction.loads(memoryview(bytearray(reduction.dumps(value))))


@pytest.mark.parametrize("value", [1, "x", b"x" * 100_000, [1, {"a": (2.5, None)}], {1, 2}, range(10**6)])
def test_values_come_back(value: Any) -> None:
    assert roundtrip(value) == value


@pytest.mark.parametrize("size", [1, 1_000, 100_000])
@pytest.mark.parametrize("writable", [True, False])
def test_arrays_are_an_own_and_writable_copy(size: int, writable: bool) -> None:
    array = np.arange(size)
    array.flags.writeable = writable
    for data in (reduction.dumps([array, array]), bytearray(reduction.dumps([array, array]))):
        first, second = reduction.loads(memoryview(data))
        assert first is second
        if size * 8 >= 4096:
            assert first.flags.writeable
            first[0] = -1
        assert array[0] == 0


def test_large_arrays_stand_where_they_were_received() -> None:
    data = bytearray(reduction.dumps(np.zeros(1000)))
    array = reduction.loads(memoryview(data))
    array[:] = 1
    assert np.ones(1000).tobytes() in bytes(data)


def test_functions_of_main_go_by_value() -> None:
    module: dict[str, Any] = {"__name__": "__main__"}
    exec("offset = 5\ndef add(x): return x + offset", module)
    data = reduction.dumps(module["add"])
    assert b"add" in data
    assert reduction.loads(data)(3) == 8


def test_many_values_are_pickled_as_if_each_were_alone() -> None:
    module: dict[str, Any] = {"__name__": "__main__"}
    exec("def add(x): return x + offset\noffset = 5", module)
    shared = [1, "two"]
    dumper = reduction.Dumper()
    for value in (shared, {"a": shared}, np.arange(3), [np.arange(1000.0), shared], module["add"], module["add"], 5):
        assert dumper.dumps(value) == reduction.dumps(value)
    with pytest.raises(TypeError, match="not like this"):
        dumper.dumps([shared, np.arange(1000.0), Strange()])
    assert dumper.dumps(shared) == reduction.dumps(shared)


def test_what_cannot_be_pickled_raises_what_the_library_does() -> None:
    for value in (threading.Lock(), Strange()):
        with pytest.raises(TypeError) as ours:
            reduction.dumps([value])
        with pytest.raises(TypeError) as theirs:
            reduction.ForkingPickler.dumps([value])
        assert str(ours.value) == str(theirs.value)


def test_what_is_registered_with_the_library_is_sent_so() -> None:
    reduction.register(Strange, lambda _: (str, ("made anew",)))
    try:
        assert roundtrip(Strange()) == "made anew"
    finally:
        del reduction.ForkingPickler._extra_reducers[Strange]  # type: ignore[attr-defined]


def test_dump_writes_into_a_file() -> None:
    file = io.BytesIO()
    reduction.dump([np.arange(5000)], file)
    assert len(pickle.loads(file.getvalue())[0]) == 5000


def test_sockets_and_the_librarys_connections(cluster: Cluster) -> None:
    def answer(sent: socket.socket, end: Any) -> str:
        sent.sendall(b"from an engine")
        end.send("from there, too")
        sent.close()
        return type(end).__module__

    mine, theirs = socket.socketpair()
    ours, other = library.Pipe()
    data = reduction.dumps((theirs, other))
    theirs.close()
    other.close()
    where = cluster.ranks[0].apply(lambda: answer(*reduction.loads(data)))
    assert where == ["multiprocessing.connection"]
    assert mine.recv(100) == b"from an engine"
    assert mine.recv(100) == b""
    assert ours.recv() == "from there, too"
    with pytest.raises(EOFError):
        ours.recv()
    mine.close()
    ours.close()
