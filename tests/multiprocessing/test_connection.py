"""Pipes: on their way to other processes, and in use."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

import fibernb as fnb
from fibernb import multiprocessing as mp
from fibernb.multiprocessing import connection
from fibernb.multiprocessing.connection import Connection, Pipe

pytestmark = pytest.mark.usefixtures("cluster")


def echo(end: Connection) -> None:
    while (message := end.recv()) is not None:
        end.send(message)


@pytest.mark.parametrize("size", [0, 1, 4, 16_384, 65_535, 65_536, 70_000, 3_000_000])
def test_bytes_of_any_size(size: int) -> None:
    first, second = Pipe()
    data = os.urandom(size)
    child = mp.Process(target=_send_back, args=(second,))
    child.start()
    second.close()
    first.send_bytes(data)
    assert first.recv_bytes() == data
    first.send_bytes(data)
    buffer = bytearray(size + 3)
    assert first.recv_bytes_into(buffer, 3) == size
    assert buffer[3:] == data
    first.close()
    child.join()
    assert child.exitcode == 0


def _send_back(end: Connection) -> None:
    for _ in range(2):
        end.send_bytes(end.recv_bytes())


def test_an_end_may_go_anywhere() -> None:
    """As an argument of a task or of an actor's method, without any help."""

    @fnb.remote
    def task(end: Connection) -> None:
        end.send("task")

    class Actor:
        def call(self, end: Connection) -> None:
            end.send("actor")

    actor: Any = fnb.remote(Actor).remote()
    runs: dict[str, Any] = {"task": task.remote, "actor": actor.call.remote}
    for name, run in runs.items():
        reading, writing = Pipe(duplex=False)
        kept = run(writing)
        writing.close()
        assert reading.recv() == name
        with pytest.raises(EOFError):
            reading.recv()
        del kept


def test_an_end_goes_through_a_pipe() -> None:
    first, second = Pipe()
    child = mp.Process(target=_use_what_comes, args=(second,))
    child.start()
    reading, writing = Pipe(duplex=False)
    first.send(writing)
    writing.close()
    assert (reading.readable, reading.writable) == (True, False)
    assert reading.recv() == (False, True)
    with pytest.raises(EOFError):
        reading.recv()
    child.join()


def _use_what_comes(end: Connection) -> None:
    writing = end.recv()
    writing.send((writing.readable, writing.writable))


def test_objects_of_all_kinds() -> None:
    first, second = Pipe()
    child = mp.Process(target=echo, args=(second,))
    child.start()
    second.close()
    array = np.random.default_rng(0).random(200_000)
    array.flags.writeable = False
    for value in (1, "x", [1] * 1000, {"a": None}):
        first.send(value)
        assert first.recv() == value
    first.send((array, lambda x: x + len(array)))
    got, function = first.recv()
    assert np.array_equal(got, array)
    assert got.flags.writeable
    assert function(1) == 200_001
    first.send(None)
    child.join()
    with pytest.raises(EOFError):
        first.recv()
    with pytest.raises(BrokenPipeError):
        first.send(1)


def test_the_end_of_a_killed_process_is_closed() -> None:
    first, second = Pipe()
    child = mp.Process(target=echo, args=(second,))
    child.start()
    second.close()
    first.send("ready")
    assert first.recv() == "ready"
    os.kill(child.pid or 0, signal.SIGKILL)
    with pytest.raises((EOFError, ConnectionResetError)):
        first.recv()
    child.join()


def test_wait_for_several() -> None:
    ends = {}
    for number in range(3):
        reading, writing = Pipe(duplex=False)
        ends[reading] = number
        mp.Process(target=Connection.send, args=(writing, number)).start()
        writing.close()
    seen = set()
    while ends:
        for ready in connection.wait(list(ends), timeout=60):
            assert isinstance(ready, Connection)
            number = ends.pop(ready)
            assert ready.recv() == number
            seen.add(number)
    assert seen == {0, 1, 2}


def test_misuse_as_the_library_answers_it() -> None:
    reading, writing = Pipe(duplex=False)
    with pytest.raises(OSError, match="connection is write-only"):
        writing.recv()
    with pytest.raises(OSError, match="connection is read-only"):
        reading.send(1)
    with pytest.raises(TypeError):
        writing.send(threading.Lock())
    writing.close()
    for use in (writing.fileno, writing.recv, lambda: writing.send(1)):
        with pytest.raises(OSError, match="handle is closed"):
            use()
    reading.close()


def test_the_rest_is_the_librarys() -> None:
    with connection.Listener(None, "AF_UNIX") as listener, connection.Client(listener.address) as client:
        accepted = listener.accept()
        client.send("hello")
        assert accepted.recv() == "hello"
        accepted.close()
    assert connection.families
    with pytest.raises(AttributeError):
        connection.nonsense  # noqa: B018
