"""Fiber's API, as its documentation describes it: what docs/fiber.md names for each part that works."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from multiprocessing.connection import wait
from typing import Any

import pytest

import fibernb as fnb
import fibernb.multiprocessing.fiber as fiber
from fibernb.client.cluster import Cluster
from fibernb.multiprocessing.managers import AsyncManager, AsyncProxyResult, BaseManager, SyncManager
from tests.integration.conftest import wait_until


@pytest.fixture(autouse=True)
def on_a_cluster(cluster: Cluster) -> Iterator[None]:
    yield
    assert fiber.active_children() == []


# ---- processes -------------------------------------------------------------------------------------------------


def send_name(end: Any) -> None:
    end.send((fiber.current_process().name, os.getpid()))


def test_a_process() -> None:
    reading, writing = fiber.Pipe(duplex=False)
    process = fiber.Process(target=send_name, args=(writing,), name="worker")
    assert process.pid is None
    process.start()
    assert reading.recv() == ("worker", process.pid)
    process.join()
    assert (process.exitcode, process.is_alive()) == (0, False)


class Subclass(fiber.Process):
    def __init__(self, end: Any) -> None:
        super().__init__()
        self.end = end

    def run(self) -> None:
        self.end.send("run")


def test_a_subclass_of_process() -> None:
    ours, theirs = fiber.Pipe()
    process = Subclass(theirs)
    process.start()
    assert ours.recv() == "run"
    process.join()


def test_a_process_is_seen_and_ended() -> None:
    process = fiber.Process(target=time.sleep, args=(1000,), daemon=True)
    process.start()
    assert fiber.active_children() == [process]
    process.terminate()
    assert wait([process.sentinel], 60) == [process.sentinel]
    process.join()
    assert process.exitcode is not None
    assert process.exitcode < 0


def fail() -> None:
    raise ValueError("of the user")


def test_an_exception_in_a_process(capfd: pytest.CaptureFixture[str]) -> None:
    process = fiber.Process(target=fail)
    process.start()
    process.join()
    assert process.exitcode == 1
    wait_until(lambda: "ValueError: of the user" in capfd.readouterr().err)


# ---- pools -----------------------------------------------------------------------------------------------------


def square(number: int) -> int:
    return number * number


def inside(_: int) -> bool:
    x, y = random.random(), random.random()
    return x * x + y * y < 1


def test_the_estimate_of_pi() -> None:
    samples = 10_000
    with fiber.Pool(processes=2) as pool:
        found = 4 * sum(pool.map(fiber.meta(cpu=0)(inside), range(samples))) / samples
    assert 3 < found < 3.3


def test_every_method_of_a_pool() -> None:
    with fiber.Pool(2) as pool:
        assert pool.apply(square, (3,)) == 9
        assert pool.apply_async(square, (4,)).get() == 16
        assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]
        assert pool.map_async(square, [5]).get() == [25]
        assert list(pool.imap(square, range(3), 2)) == [0, 1, 4]
        assert sorted(pool.imap_unordered(square, range(3))) == [0, 1, 4]
        assert pool.starmap(divmod, [(7, 2)]) == [(3, 1)]
        assert pool.starmap_async(divmod, [(7, 2)]).get() == [(3, 1)]


def test_an_exception_in_a_pool_reaches_the_caller() -> None:
    with fiber.Pool(1) as pool, pytest.raises(ValueError, match="of the user"):
        pool.apply(fail)


def die_once(path: str) -> str:
    if not os.path.exists(path):
        with open(path, "w"):
            os._exit(1)
    return "survived"


def test_an_error_handling_pool(tmp_path: Any) -> None:
    with fiber.Pool(2, error_handling=True) as pool:
        assert pool.map(die_once, [str(tmp_path / "died")]) == ["survived"]


def set_up(value: int) -> None:
    os.environ["SET_UP"] = str(value)


def tell(_: int) -> str:
    return os.environ["SET_UP"]


def test_an_initializer_and_close_and_join() -> None:
    pool = fiber.Pool(1, initializer=set_up, initargs=(7,), maxtasksperchild=1)
    assert pool.map(tell, range(3), chunksize=1) == ["7"] * 3
    pool.close()
    pool.join()
    with pytest.raises(ValueError, match="not running"):
        pool.map(tell, [1])


def test_a_pool_in_a_task() -> None:
    @fnb.remote
    def outer() -> Any:
        with fiber.Pool(1) as pool:
            return pool.map(square, [1, 2])

    assert fnb.get(outer.remote()) == [1, 4]


# ---- queues and pipes ------------------------------------------------------------------------------------------


def put_all(queue: Any, items: list[Any]) -> None:
    for item in items:
        queue.put(item)


def test_a_simple_queue() -> None:
    queue = fiber.SimpleQueue()
    process = fiber.Process(target=put_all, args=(queue, [1, "two", [3]]))
    process.start()
    assert [queue.get(), queue.get(), queue.get()] == [1, "two", [3]]
    process.join()


def take_one(queue: Any, results: Any) -> None:
    results.put(queue.get())


def test_a_queue_between_processes() -> None:
    queue, results = fiber.SimpleQueue(), fiber.SimpleQueue()
    processes = [fiber.Process(target=take_one, args=(queue, results)) for _ in range(2)]
    for process in processes:
        process.start()
    put_all(queue, [1, 2])
    assert sorted([results.get(), results.get()]) == [1, 2]
    for process in processes:
        process.join()


def answer(end: Any) -> None:
    end.send(end.recv() + 1)


def test_a_duplex_pipe() -> None:
    ours, theirs = fiber.Pipe()
    process = fiber.Process(target=answer, args=(theirs,))
    process.start()
    ours.send(1)
    assert ours.recv() == 2
    process.join()


# ---- managers --------------------------------------------------------------------------------------------------


def change(names: Any, found: Any) -> None:
    names.x += 1
    found["list"].append(2)


def test_a_manager() -> None:
    with fiber.Manager() as manager:
        names, found = manager.Namespace(x=1), manager.dict(list=manager.list([1]))
        process = fiber.Process(target=change, args=(names, found))
        process.start()
        process.join()
        assert (names.x, list(found["list"])) == (2, [1, 2])


def test_a_sync_manager_that_is_started_by_hand() -> None:
    manager = SyncManager()
    manager.start()
    numbers: Any = manager.list()
    numbers.append("x")
    assert str(numbers) == "['x']"
    manager.shutdown()


class Calculator:
    def add(self, a: int, b: int) -> int:
        return a + b


class Plain(BaseManager):
    pass


class Async(AsyncManager):
    pass


Plain.register("Calculator", Calculator)
Async.register("Calculator", Calculator)


def test_a_manager_with_a_type_of_ones_own() -> None:
    with Plain() as manager:
        calculator: Any = manager.Calculator()  # type: ignore[attr-defined]  # registered
        assert calculator.add(10, 32) == 42


def test_an_async_manager() -> None:
    with Async() as manager:
        calculator: Any = manager.Calculator()  # type: ignore[attr-defined]  # registered
        result = calculator.add(10, 32)
        assert isinstance(result, AsyncProxyResult)
        assert result.get() == 42


# ---- the rest --------------------------------------------------------------------------------------------------


def test_meta() -> None:
    @fiber.meta(cpu=4, memory=1000, gpu=1)
    def function() -> None: ...

    assert getattr(function, "__fiber_meta__") == {"cpu": 4, "mem": 1000, "gpu": 1}  # noqa: B009  mypy knows it not


def test_contexts_and_counts(cluster: Cluster) -> None:
    assert fiber.get_context("spawn").Process is not None
    assert fiber.cpu_count() == 2
    with pytest.raises(ValueError, match="cannot find context"):
        fiber.get_context("smoke signals")


def in_ring(rank: int, size: int) -> tuple[int, int]:
    return rank, size


def test_a_ring() -> None:
    assert fiber.Ring(2, in_ring, initializer=check_members).run() == [(0, 2), (1, 2)]


def check_members(ring: Any) -> None:
    assert [node.rank for node in ring.members] == [0, 1]
    assert all(isinstance(node, fiber.RingNode) and node.port for node in ring.members)


def test_a_pool_that_is_resized() -> None:
    with fiber.Pool(1) as pool:
        pool.resize(2)
        wait_until(lambda: len([child for child in fiber.active_children() if child.is_alive()]) == 2)
        assert pool.map(square, range(3)) == [0, 1, 4]
