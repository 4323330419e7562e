# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Ray's pages on concurrent actors: asyncio, threads, concurrency groups."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import fibernb as ray
from tests.ray.gates import after, open_gate, pass_gate


@ray.remote
def one() -> int:
    return 1


@ray.remote
class Meeting:
    """Coroutines that end only when as many as expected are there."""

    def __init__(self, expected: int) -> None:
        self.event = asyncio.Event()
        self.expected = expected
        self.present = 0

    async def join(self) -> int:
        self.present += 1
        if self.present == self.expected:
            self.event.set()
        await self.event.wait()
        return self.present


def test_coroutines_run_side_by_side() -> None:
    meeting = Meeting.remote(4)
    assert ray.get([meeting.join.remote() for _ in range(4)], timeout=30) == [4, 4, 4, 4]


def test_references_are_awaited() -> None:
    meeting = Meeting.remote(4)

    async def gather() -> list[int]:
        return list(await asyncio.gather(*[meeting.join.remote() for _ in range(4)]))

    assert asyncio.run(gather()) == [4, 4, 4, 4]


def test_a_reference_is_an_asyncio_future() -> None:
    async def values() -> tuple[int, int]:
        return await one.remote(), await asyncio.wrap_future(one.remote().future())

    assert asyncio.run(values()) == (1, 1)


def test_a_reference_is_a_concurrent_future() -> None:
    futures = [one.remote().future() for _ in range(4)]
    assert [future.result() for future in concurrent.futures.as_completed(futures)] == [1, 1, 1, 1]


def test_coroutines_await_tasks() -> None:
    @ray.remote
    class Boss:
        async def delegate(self) -> int:
            return sum(await asyncio.gather(*[one.remote() for _ in range(10)]))

    assert ray.get(Boss.remote().delegate.remote()) == 10


def test_coroutines_are_tasks() -> None:
    @ray.remote
    async def gather(count: int) -> int:
        return sum(await asyncio.gather(*[one.remote() for _ in range(count)]))

    @ray.remote
    async def count(stop: int) -> AsyncIterator[int]:
        for number in range(stop):
            await asyncio.sleep(0)
            yield number

    @ray.remote
    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("no")

    assert ray.get([gather.remote(3) for _ in range(8)], timeout=30) == [3] * 8, "more than there are cpus"
    assert [ray.get(ref) for ref in count.remote(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="no"):
        ray.get(fail.remote(), timeout=30)


def test_max_concurrency_of_coroutines() -> None:
    @ray.remote
    class Busy:
        def __init__(self) -> None:
            self.running = 0
            self.most = 0
            self.met = asyncio.Event()

        async def work(self) -> None:
            self.running += 1
            self.most = max(self.most, self.running)
            if self.most == 2:
                self.met.set()
            await self.met.wait()
            await asyncio.sleep(0.02)  # for more to come, if they may
            self.running -= 1

        async def peak(self) -> int:
            return self.most

    busy = Busy.options(max_concurrency=2).remote()
    ray.get([busy.work.remote() for _ in range(8)], timeout=30)
    assert ray.get(busy.peak.remote()) == 2


def test_an_async_call_is_cancelled() -> None:
    @ray.remote
    class Sleeper:
        def __init__(self) -> None:
            self.cancelled = 0

        async def sleep(self) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise

        async def count(self) -> int:
            return self.cancelled

    sleeper = Sleeper.remote()
    ref = sleeper.sleep.remote()
    assert ray.get(sleeper.count.remote()) == 0
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=20)
    assert ray.get(sleeper.count.remote()) == 1


def test_coroutines_do_not_wait_for_late_arguments_of_others(tmp_path: Path) -> None:
    @ray.remote
    class Adder:
        def __init__(self) -> None:
            self.value = 0

        async def add(self, value: int) -> int:
            self.value += value
            return self.value

    gate = str(tmp_path / "gate")
    adder = Adder.remote()
    late, soon = adder.add.remote(after.remote(gate, 1)), adder.add.remote(2)
    open_gate(gate)
    assert sorted(ray.get([late, soon], timeout=20)) in ([1, 3], [2, 3])


def test_threads(tmp_path: Path) -> None:
    @ray.remote(max_concurrency=2)
    class Pair:
        def first(self, place: str) -> str:
            open_gate(f"{place}/first")
            pass_gate(f"{place}/second")
            return threading.current_thread().name

        def second(self, place: str) -> str:
            pass_gate(f"{place}/first")
            open_gate(f"{place}/second")
            return threading.current_thread().name

    pair = Pair.remote()
    names = ray.get([pair.first.remote(str(tmp_path)), pair.second.remote(str(tmp_path))], timeout=30)
    assert len(set(names)) == 2


@ray.remote(concurrency_groups={"io": 2, "compute": 4})
class Grouped:
    def __init__(self) -> None:
        self.running = {"io": 0, "compute": 0, "default": 0}
        self.most = dict(self.running)
        self.met = {group: asyncio.Event() for group in self.running}

    async def _work(self, group: str, together: int) -> None:
        """Go on when so many have come together, and leave some time for more."""
        self.running[group] += 1
        self.most[group] = max(self.most[group], self.running[group])
        if self.most[group] == together:
            self.met[group].set()
        await self.met[group].wait()
        await asyncio.sleep(0.02)
        self.running[group] -= 1

    @ray.method(concurrency_group="io")
    async def read(self, together: int = 2) -> None:
        await self._work("io", together)

    @ray.method(concurrency_group="compute")
    async def compute(self) -> None:
        await self._work("compute", 4)

    async def other(self) -> None:
        await self._work("default", 5)

    async def peaks(self) -> dict[str, int]:
        return self.most


def test_concurrency_groups() -> None:
    grouped = Grouped.remote()
    calls: list[Any] = [grouped.read.remote() for _ in range(8)]
    calls += [grouped.compute.remote() for _ in range(12)]
    calls += [grouped.other.remote() for _ in range(8)]
    ray.get(calls, timeout=30)
    peaks = ray.get(grouped.peaks.remote())
    assert (peaks["io"], peaks["compute"]) == (2, 4)
    assert peaks["default"] > 4


def test_the_group_of_one_call() -> None:
    grouped = Grouped.remote()
    ray.get([grouped.read.options(concurrency_group="compute").remote(4) for _ in range(8)], timeout=30)
    assert ray.get(grouped.peaks.remote())["io"] == 4


def test_groups_of_threads(tmp_path: Path) -> None:
    @ray.remote(concurrency_groups={"health": 1})
    class Server:
        def serve(self, gate: str) -> str:
            pass_gate(gate)
            return "served"

        @ray.method(concurrency_group="health")
        def healthy(self) -> bool:
            return True

    gate = str(tmp_path / "gate")
    server = Server.remote()
    serving = server.serve.remote(gate)
    assert ray.get(server.healthy.remote(), timeout=20) is True
    open_gate(gate)
    assert ray.get(serving, timeout=20) == "served"


def test_an_async_function_needs_a_loop_of_its_own() -> None:
    async def double(value: int) -> int:
        await asyncio.sleep(0)
        return 2 * value

    @ray.remote
    def wrapper(value: int) -> int:
        return asyncio.run(double(value))

    assert ray.get(wrapper.remote(4)) == 8
