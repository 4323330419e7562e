"""Streaming tasks: their items come while they run, and they wait for who takes them."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from fibernb import serialize
from fibernb.core.messages import Consume, Interrupt, Run
from fibernb.engine import streaming
from fibernb.model import STREAM_IDS, STREAMING, Call, Outcome, TaskOptions
from fibernb.wire import codec
from tests.engine.conftest import ENGINE, InProcess
from tests.engine.fakehub import FakeHub, NotThere

closed = threading.Event()
TASK = 5 * STREAM_IDS


@pytest.fixture(autouse=True)
def _fresh() -> None:
    closed.clear()


def stream(hub: FakeHub, function: Callable[..., Any], *args: Any, window: int = 0, task: int = TASK) -> None:
    digest, code = serialize.dumps_function(function)
    run = Run(
        function=digest,
        calls=[Call(task, serialize.dumps_call(args, {}, NotThere)[0])],
        position=hub.positions[ENGINE],
        code=code,
        options=TaskOptions(num_returns=STREAMING, backpressure=window, name="f"),
    )
    hub.positions[ENGINE] += 1
    hub.listener.send(hub.datas[ENGINE], codec.encode(run))


def count(to: int) -> Iterator[int]:
    try:
        yield from range(to)
    finally:
        closed.set()


async def count_async(to: int) -> AsyncIterator[int]:
    for number in range(to):
        yield number


def items(hub: FakeHub, number: int, task: int = TASK) -> list[Any]:
    return [hub.value(task + 1 + index) for index in range(number)]


@pytest.mark.parametrize("function", [count, count_async])
def test_items_are_results_and_their_number_is_the_last(
    in_process: InProcess, function: Callable[[int], object]
) -> None:
    def scenario(hub: FakeHub) -> None:
        stream(hub, function, 500)
        assert hub.value(TASK) == 500
        assert items(hub, 500) == list(range(500))
        assert len(hub.dones) < 250
        order = [result.id for _, done in hub.dones for result in done.results]
        assert order == [*range(TASK + 1, TASK + 501), TASK]

    in_process.play(scenario)


def test_an_item_does_not_wait_for_the_next(in_process: InProcess) -> None:
    gate = threading.Event()
    gates["now"] = gate

    def scenario(hub: FakeHub) -> None:
        stream(hub, in_bursts)
        for number in range(6):
            hub.wait(functools.partial(hub.results.__contains__, TASK + 1 + number), 5)
        assert TASK not in hub.results
        gate.set()
        assert hub.value(TASK) == 6

    in_process.play(scenario)


gates: dict[str, threading.Event] = {}


def in_bursts() -> Iterator[int]:
    for number in range(3):
        yield number
        yield number
        time.sleep(0.02)
    while not gates["now"].wait(0.01):
        pass


def test_it_waits_for_its_consumer(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        stream(hub, count, 100, window=10)
        assert items(hub, 10) == list(range(10))
        hub.settle(0.05)
        assert TASK + 11 not in hub.results
        hub.control(ENGINE, Consume(task=TASK, items=50))
        assert items(hub, 60)[-1] == 59
        hub.control(ENGINE, Consume(task=TASK, items=40))  # old news
        hub.settle(0.05)
        assert TASK + 61 not in hub.results
        hub.control(ENGINE, Consume(task=TASK, items=100))
        assert hub.value(TASK) == 100

    in_process.play(scenario)


def test_what_was_taken_before_it_began_counts(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.control(ENGINE, Consume(task=TASK, items=95))
        hub.settle(0.05)
        stream(hub, count, 100, window=10)
        assert hub.value(TASK) == 100

    in_process.play(scenario)


def test_an_interrupt_ends_one_that_waits(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        stream(hub, count, 100, window=10)
        items(hub, 10)
        hub.control(ENGINE, Interrupt(task=TASK))
        with pytest.raises(KeyboardInterrupt):
            hub.value(TASK)
        assert hub.results[TASK].outcome is Outcome.CANCELLED
        assert closed.wait(1)

    in_process.play(scenario)


def fails_after(number: int) -> Iterator[int]:
    yield from range(number)
    raise ValueError("told")


def test_an_error_comes_after_the_items_before_it(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        stream(hub, fails_after, 3)
        with pytest.raises(ValueError, match="told"):
            hub.value(TASK)
        assert items(hub, 3) == [0, 1, 2]

    in_process.play(scenario)


def test_what_is_no_generator_is_told_so(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        stream(hub, list, (1, 2))
        with pytest.raises(TypeError, match=r"f returned a list.*wants a generator: yield"):
            hub.value(TASK)

    in_process.play(scenario)


def test_more_items_than_there_are_numbers_for(in_process: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "STREAM_IDS", 10)

    def scenario(hub: FakeHub) -> None:
        stream(hub, count, 10)
        with pytest.raises(ValueError, match="yields more than 9 items"):
            hub.value(TASK)
        assert items(hub, 9) == list(range(9))

    in_process.play(scenario)


def test_items_survive_a_break_of_the_link(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        stream(hub, count, 2000, window=100)
        items(hub, 100)
        hub.hellos.clear()
        hub.results.clear()
        for peer in (hub.datas[ENGINE], hub.controls[ENGINE]):
            hub.listener.drop(peer)
        hub.wait(lambda: ENGINE in hub.hellos)
        assert hub.hellos[ENGINE].holds == [TASK]
        hub.control(ENGINE, Consume(task=TASK, items=2000))
        assert hub.value(TASK) == 2000
        assert items(hub, 2000) == list(range(2000))

    in_process.play(scenario)
