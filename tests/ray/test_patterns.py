# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Ray's design patterns."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

import fibernb as ray


def test_nested_tasks_a_parallel_quicksort() -> None:
    @ray.remote
    def sort(values: list[int]) -> Any:
        if len(values) < 200:
            return sorted(values)
        pivot = values[len(values) // 2]
        parts = (
            [value for value in values if value < pivot],
            [value for value in values if value == pivot],
            [value for value in values if value > pivot],
        )
        low, high = sort.remote(parts[0]), sort.remote(parts[2])
        return [*ray.get(low), *parts[1], *ray.get(high)]

    generator = random.Random(1)
    values = [generator.randrange(10_000) for _ in range(1000)]
    assert ray.get(sort.remote(values), timeout=60) == sorted(values)


def test_generators_keep_memory_low() -> None:
    @ray.remote(num_returns=8)
    def pieces() -> Iterator[Any]:
        for number in range(8):
            yield np.full(200_000, number, dtype=np.int8)

    assert [int(ray.get(piece)[0]) for piece in pieces.remote()] == list(range(8))


def test_wait_bounds_how_many_tasks_wait() -> None:
    @ray.remote
    class Actor:
        async def work(self) -> int:
            await asyncio.sleep(0.001)
            return 1

    actor = Actor.remote()
    pending: list[Any] = []
    done = 0
    for _ in range(200):
        if len(pending) >= 20:
            ready, pending = ray.wait(pending, num_returns=1)
            done += sum(ray.get(ready))
        pending.append(actor.work.remote())
    assert done + sum(ray.get(pending)) == 200


def test_resources_bound_how_many_tasks_run() -> None:
    @ray.remote(num_cpus=2)
    def process(number: int) -> int:
        time.sleep(0.002)
        return number

    assert ray.get([process.remote(number) for number in range(10)], timeout=30) == list(range(10))


def test_an_asyncio_actor_does_several_things_at_once() -> None:
    @ray.remote
    class Store:
        def __init__(self) -> None:
            self.left = 6

        async def take(self) -> int | None:
            await asyncio.sleep(0.001)
            self.left -= 1
            return self.left if self.left >= 0 else None

    @ray.remote(num_cpus=0)
    class Executor:
        def __init__(self, store: Any) -> None:
            self.store = store
            self.done: list[int] = []

        async def run(self) -> None:
            while (task := await self.store.take.remote()) is not None:
                self.done.append(task)

        async def progress(self) -> int:
            return len(self.done)

    executor = Executor.remote(Store.remote())
    running = executor.run.remote()
    assert ray.get(executor.progress.remote(), timeout=20) <= 6
    ray.get(running, timeout=20)
    assert ray.get(executor.progress.remote()) == 6


def test_an_actor_synchronizes_tasks() -> None:
    @ray.remote(num_cpus=0)
    class Signal:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        def send(self, clear: bool = False) -> None:
            self.event.set()
            if clear:
                self.event.clear()

        async def wait(self) -> None:
            await self.event.wait()

    @ray.remote
    def go(signal: Any) -> str:
        ray.get(signal.wait.remote())
        return "go"

    signal = Signal.remote()
    waiting = [go.remote(signal) for _ in range(4)]
    assert ray.wait(waiting, num_returns=4, timeout=0.2)[0] == []
    ray.get(signal.send.remote())
    assert ray.get(waiting, timeout=20) == ["go"] * 4


def test_a_tree_of_supervisors() -> None:
    @ray.remote(num_cpus=0)
    class Trainer:
        def __init__(self, rate: float, data: list[float]) -> None:
            self.rate = rate
            self.data = data

        def fit(self) -> float:
            return self.rate * sum(self.data)

    @ray.remote(num_cpus=0)
    class Supervisor:
        def __init__(self, rate: float, data: list[list[float]]) -> None:
            self.trainers = [Trainer.remote(rate, part) for part in data]

        def fit(self) -> float:
            return float(sum(ray.get([trainer.fit.remote() for trainer in self.trainers])))

    supervisors = [Supervisor.remote(rate, [[1, 2], [3]]) for rate in (1.0, 2.0)]
    assert ray.get([supervisor.fit.remote() for supervisor in supervisors], timeout=60) == [6.0, 12.0]


def test_pipelining_asks_for_the_next_piece_before_it_works() -> None:
    @ray.remote
    class Queue:
        def __init__(self) -> None:
            self.items = list(range(10))

        def take(self) -> int | None:
            return self.items.pop(0) if self.items else None

    @ray.remote(num_cpus=0)
    class Worker:
        def __init__(self, queue: Any) -> None:
            self.queue = queue

        def run(self) -> list[int]:
            done = []
            following = self.queue.take.remote()
            while (item := ray.get(following)) is not None:
                following = self.queue.take.remote()
                done.append(item * item)
            return done

    queue = Queue.remote()
    workers = [Worker.remote(queue) for _ in range(2)]
    results = ray.get([worker.run.remote() for worker in workers], timeout=30)
    assert sorted(results[0] + results[1]) == [number**2 for number in range(10)]


def test_map_and_reduce() -> None:
    @ray.remote(num_returns=3)
    def count_words(text: str) -> list[Any]:
        counts = Counter(text.split())
        parts: list[Counter[str]] = [Counter(), Counter(), Counter()]
        for word, count in counts.items():
            parts[len(word) % 3][word] = count
        return parts

    @ray.remote
    def merge(*parts: Any) -> Any:
        return sum(parts, Counter())

    texts = ["to be or not to be", "that is the question", "be that as it may"]
    mapped = [count_words.remote(text) for text in texts]
    reduced = ray.get([merge.remote(*(parts[number] for parts in mapped)) for number in range(3)])
    assert sum(reduced, Counter()) == Counter(" ".join(texts).split())


def test_a_tree_of_sums() -> None:
    @ray.remote
    def add(left: int, right: int) -> int:
        return left + right

    values: list[Any] = [ray.put(number) for number in range(64)]
    while len(values) > 1:
        values = [*values[2:], add.remote(values[0], values[1])]
    assert ray.get(values[0]) == sum(range(64))


def test_what_a_task_has_submitted_comes_before_what_follows_from_its_result() -> None:
    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.heard: list[int] = []

        def note(self, number: int) -> None:
            self.heard.append(number)

        def all(self) -> list[int]:
            return self.heard

    @ray.remote
    def work(number: int, log: Any) -> None:
        log.note.remote(number)

    log = Log.remote()
    for number in range(200):
        ray.get(work.remote(number, log))
        assert ray.get(log.all.remote())[-1] == number


def test_monte_carlo_with_a_progress_actor() -> None:
    @ray.remote
    class Progress:
        def __init__(self, total: int) -> None:
            self.total = total
            self.done: dict[int, int] = {}

        def report(self, task: int, count: int) -> None:
            self.done[task] = count

        def share(self) -> float:
            return sum(self.done.values()) / self.total

    @ray.remote
    def sample(count: int, task: int, progress: Any) -> int:
        generator = random.Random(task)
        inside = 0
        for number in range(count):
            x, y = generator.uniform(-1, 1), generator.uniform(-1, 1)
            inside += x * x + y * y <= 1
            if (number + 1) % 1000 == 0:
                progress.report.remote(task, number + 1)
        return inside

    tasks, count = 4, 5000
    progress = Progress.remote(tasks * count)
    inside = sum(ray.get([sample.remote(count, task, progress) for task in range(tasks)]))
    end = time.monotonic() + 30
    while ray.get(progress.share.remote()) < 1.0:  # reports of others may still be on their way
        assert time.monotonic() < end
    assert 3.0 < 4 * inside / (tasks * count) < 3.3
