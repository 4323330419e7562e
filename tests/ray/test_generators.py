# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Ray's page on generators: references that come while the task runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fibernb as ray
from tests.integration.conftest import wait_until
from tests.ray.gates import after, open_gate, pass_gate


@ray.remote
def count(stop: int = 5) -> Iterator[int]:
    yield from range(stop)


@ray.remote(num_returns="streaming")
def gated(place: str) -> Iterator[int]:
    """Item n when gate n is open."""
    for number in range(3):
        pass_gate(f"{place}/{number}")
        yield number


def test_a_generator_streams_by_itself() -> None:
    references = count.remote()
    assert ray.get(next(references)) == 0
    assert [ray.get(reference) for reference in references] == [1, 2, 3, 4]
    with pytest.raises(StopIteration):
        next(references)


def test_items_come_while_the_task_runs(tmp_path: Path) -> None:
    references = gated.remote(str(tmp_path))
    for number in range(3):
        assert ray.wait([references], timeout=0.05) == ([], [references])
        open_gate(f"{tmp_path}/{number}")
        assert ray.wait([references], timeout=20) == ([references], [])
        assert ray.get(next(references)) == number
    assert list(references) == []


def test_an_error_stands_in_its_place() -> None:
    @ray.remote
    def fail_at_one() -> Iterator[int]:
        yield 0
        raise ValueError("at one")

    references = fail_at_one.remote()
    assert ray.get(next(references)) == 0
    with pytest.raises(ValueError, match="at one"):
        ray.get(next(references))
    with pytest.raises(StopIteration):
        next(references)


def test_generators_of_actors() -> None:
    @ray.remote
    class Plain:
        def count(self) -> Iterator[int]:
            yield from range(5)

    @ray.remote
    class Async:
        async def count(self) -> AsyncIterator[int]:
            for number in range(5):
                await asyncio.sleep(0)
                yield number

    @ray.remote(max_concurrency=5)
    class Threaded:
        def count(self) -> Iterator[int]:
            yield from range(5)

    kinds: list[Any] = [Plain, Async, Threaded]
    for kind in kinds:
        actor = kind.remote()
        stream = actor.count.options(num_returns="streaming").remote()
        assert [ray.get(reference) for reference in stream] == list(range(5))


def test_async_for() -> None:
    async def collect() -> list[int]:
        return [await reference async for reference in count.remote()]

    async def both() -> list[list[int]]:
        return list(await asyncio.gather(collect(), collect()))

    assert asyncio.run(both()) == [list(range(5)), list(range(5))]


def test_references_live_as_long_as_they_are_held() -> None:
    references = count.remote()
    first = next(references)
    del references
    assert ray.get(first) == 0


def test_completed() -> None:
    references = count.remote()
    ray.get(references.completed())
    assert ray.wait([references], timeout=0)[0] == [references]
    with pytest.raises(TypeError):
        ray.get(references)


def test_a_generator_is_cancelled(tmp_path: Path) -> None:
    references = gated.remote(str(tmp_path))
    open_gate(f"{tmp_path}/0")
    assert ray.get(next(references)) == 0
    ray.cancel(references)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(next(references), timeout=20)


def test_generators_and_references_are_waited_for_together(tmp_path: Path) -> None:
    late = after.remote(f"{tmp_path}/gate", "late")
    waiting: Any = [count.remote(3), late]
    ready: Any
    results: list[Any] = []
    while waiting:
        ready, waiting = ray.wait(waiting)
        for one in ready:
            if not isinstance(one, ray.ObjectRefGenerator):
                results.append(ray.get(one))
                continue
            try:
                results.append(ray.get(next(one)))
                waiting.append(one)
            except StopIteration:
                open_gate(f"{tmp_path}/gate")
    assert results == [0, 1, 2, "late"]


def test_a_producer_waits_for_a_slow_consumer(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.touch()

    @ray.remote(num_returns="streaming", _generator_backpressure_num_objects=3)
    def produce() -> Iterator[int]:
        for number in range(20):
            with trace.open("a") as file:
                file.write("x")
            yield number

    references = produce.remote()
    assert ray.get(next(references)) == 0
    wait_until(lambda: len(trace.read_text()) >= 4)
    assert ray.wait([references], timeout=0.2)[0] == [references]
    assert len(trace.read_text()) <= 5
    assert [ray.get(reference) for reference in references] == list(range(1, 20))
    assert len(trace.read_text()) == 20


def test_large_items() -> None:
    @ray.remote
    def arrays() -> Iterator[Any]:
        for number in range(10):
            yield np.full(100_000, number)

    assert [int(ray.get(reference)[0]) for reference in arrays.remote()] == list(range(10))


def test_a_generator_that_is_retried_goes_on_where_it_was(tmp_path: Path) -> None:
    once = tmp_path / "once"

    @ray.remote(max_retries=2)
    def die_once() -> Iterator[int]:
        import os

        for number in range(6):
            if number == 3 and not once.exists():
                once.touch()
                os._exit(1)
            yield number

    assert [ray.get(reference) for reference in die_once.remote()] == list(range(6))


def test_dynamic() -> None:
    """Ray's older way: one reference, to a generator of the references."""

    @ray.remote(num_returns="dynamic")
    def split(stop: int) -> Iterator[int]:
        yield from range(stop)

    @ray.remote
    def total(references: Any) -> int:
        return sum(ray.get(list(references)))

    assert [ray.get(reference) for reference in ray.get(split.remote(3))] == [0, 1, 2]
    assert ray.get(total.remote(split.remote(4))) == 6
