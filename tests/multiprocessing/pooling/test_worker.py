"""The worker of a pool, in this process: interrupts that come while nothing runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from fibernb.multiprocessing import reduction
from fibernb.multiprocessing.connection import Connection, Pipe
from fibernb.multiprocessing.pooling import worker as module
from fibernb.multiprocessing.pooling.channel import Channel
from fibernb.multiprocessing.pooling.messages import (
    Answers,
    GivenBack,
    Kept,
    Leave,
    Piece,
    Ready,
    Shape,
    Stop,
    ToOwner,
    Work,
    to_owner,
    to_worker,
)
from fibernb.multiprocessing.pooling.packing import pack, unpack
from fibernb.multiprocessing.pooling.worker import Worker, work


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def ends() -> Iterator[tuple[Connection, Channel[ToOwner]]]:
    """The worker's connection, and the owner's end."""
    ours, theirs = Pipe()
    with theirs, ours:
        yield theirs, Channel(ours, to_owner)


def piece(number: int, items: list[Any], job: int) -> Piece:
    return Piece(
        number=number, job=job, function=1, shape=Shape.ONE, count=len(items), items=pack(items), goes_on=False
    )


def test_a_worker_that_is_ready_may_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[Any] = []

    class Told:
        def __init__(self, *_: object) -> None: ...

        def send(self, message: object) -> None:
            assert isinstance(message, Ready)
            handlers.append(signal.getsignal(signal.SIGINT))

        def receive(self) -> None:
            raise EOFError

    monkeypatch.setattr(module, "Channel", Told)
    work(None, None, ())  # type: ignore[arg-type]
    assert [handler.__func__ for handler in handlers] == [Worker.look]


def test_what_was_stopped_before_it_began_does_not_run(ends: tuple[Connection, Channel[ToOwner]]) -> None:
    connection, owner = ends
    worker = Worker(Channel(connection, to_worker))
    ran: list[int] = []
    worker._functions[1] = ran.append
    owner.send(Work(pieces=[piece(1, [1], job=1), piece(2, [2], job=2)]))
    first = worker._next()
    assert first is not None
    owner.send(Stop(job=1))
    owner.send(Leave())
    worker.look(signal.SIGINT, None)
    worker._run(first)
    worker.run()
    assert ran == [2]
    said: list[ToOwner] = []
    while len(said) < 2:
        said += owner.receive()
    given, answered = said
    assert given == GivenBack(pieces=[Kept(piece=1, count=0)])
    assert isinstance(answered, Answers)
    assert [list(unpack(answer.values)) for answer in answered.answers] == [[None]]


def test_an_exit_ends_the_worker(ends: tuple[Connection, Channel[ToOwner]]) -> None:
    connection, owner = ends

    def leave(code: int) -> None:
        raise SystemExit(code)

    owner.send(Work(pieces=[piece(1, [4], job=1)], functions={1: reduction.dumps(leave)}))
    with pytest.raises(SystemExit):
        work(connection, None, ())
