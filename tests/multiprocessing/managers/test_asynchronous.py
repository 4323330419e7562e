"""`AsyncManager`: calls return at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import fibernb as fnb
import fibernb.multiprocessing as multiprocessing
from fibernb.multiprocessing.managers import AsyncManager, AsyncProxyResult, SyncManager
from tests.multiprocessing.managers.things import NoFuel, Yard

MANY = 20_000
LARGE_BYTES = 1_000_000  # more than a socket holds


@pytest.fixture(scope="module")
def yard(cluster: object) -> Iterator[Any]:
    with Yard() as made:
        yield made


def test_a_call_returns_something_to_get(yard: Any) -> None:
    result = yard.Engine(3).drive(14)
    assert isinstance(result, AsyncProxyResult)
    assert result.get() == 42
    assert (result.ready(), result.successful()) == (True, True)


def test_results_may_be_taken_in_any_order(yard: Any) -> None:
    engine = yard.Engine(2)
    results = [engine.drive(number) for number in range(100)]
    assert [result.get() for result in reversed(results)] == [2 * number for number in reversed(range(100))]


def test_results_may_be_taken_by_any_thread(yard: Any) -> None:
    engine = yard.Engine()
    results = {number: engine.drive(number) for number in range(20)}
    found: dict[int, Any] = {}
    threads = [threading.Thread(target=lambda n=n, r=r: found.update({n: r.get()})) for n, r in results.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number for number in range(20)}


def test_an_exception_comes_with_get(yard: Any) -> None:
    result = yard.Engine().fail()
    with pytest.raises(NoFuel, match="empty"):
        result.get()
    assert not result.successful()


def test_a_result_that_is_not_there_yet(yard: Any) -> None:
    gate = yard.Gate()
    result = gate.pass_through()
    with pytest.raises(multiprocessing.TimeoutError):
        result.get(timeout=0.01)
    with pytest.raises(ValueError, match="not been answered"):
        result.successful()
    assert not result.ready()
    assert yard.Engine().drive(1).get() == 1  # other objects go on


def test_calls_of_one_proxy_keep_their_order(yard: Any) -> None:
    numbers = yard.list()
    for number in range(1000):
        numbers.append(number)
    assert numbers[slice(None)].get() == list(range(1000))


def test_objects_of_several_managers_work_at_once(cluster: object, manager: SyncManager) -> None:
    barrier = manager.Barrier(3)
    yards = [Yard() for _ in range(3)]
    for made in yards:
        made.start()
    engines = [made.Engine(barrier) for made in yards]  # type: ignore[attr-defined]  # registered
    meetings = [engine.meet() for engine in engines]
    assert sorted(meeting.get() for meeting in meetings) == [0, 1, 2]
    for made in yards:
        made.shutdown()


def test_many_calls_and_large_answers_do_not_block(yard: Any) -> None:
    engine, numbers = yard.Engine(), yard.list()
    many = [engine.drive(number) for number in range(MANY)]
    large = [numbers.append(b"x" * LARGE_BYTES) for _ in range(10)]
    large += [numbers[index] for index in range(10)]
    assert sum(result.get() for result in many) == MANY * (MANY - 1) // 2
    assert len(large[-1].get()) == LARGE_BYTES


def test_a_call_is_made_though_nobody_keeps_anything(yard: Any, manager: SyncManager) -> None:
    mail = manager.Queue()
    yard.Engine(mail).report("done")
    assert mail.get() == "done"


def test_results_can_be_awaited(yard: Any) -> None:
    engine = yard.Engine(2)

    async def gathered() -> list[int]:
        return [await engine.drive(number) for number in range(3)]

    assert asyncio.run(gathered()) == [0, 2, 4]


def test_a_method_that_returns_a_proxy(yard: Any) -> None:
    assert yard.Garage().build(5).get().drive(2).get() == 10


def test_types_that_are_there(cluster: object) -> None:
    with AsyncManager() as made:
        known: Any = made
        names = known.dict(a=1)
        names["b"] = 2
        value = known.Value("i", 3)
        assert (names.copy().get(), value.get().get(), known.Array("i", [7])[0].get()) == ({"a": 1, "b": 2}, 3, 7)
        assert str(names) == "{'a': 1, 'b': 2}"


def test_a_proxy_in_a_task_and_in_a_process(yard: Any) -> None:
    engine, numbers = yard.Engine(3), yard.list()
    assert fnb.get(fnb.remote(lambda it: it.drive(2).get()).remote(engine)) == 6
    process = multiprocessing.Process(target=add_one, args=(numbers,))
    process.start()
    process.join()
    assert numbers[0].get() == 1


def add_one(numbers: Any) -> None:
    numbers.append(1).get()


def test_what_cannot_be_sent_fails_at_once_and_alone(yard: Any) -> None:
    engine = yard.Engine()
    with pytest.raises(TypeError):
        engine.drive(threading.Lock())
    assert engine.drive(1).get() == 1


def test_a_server_that_dies_answers_no_call(cluster: object) -> None:
    with Yard() as made:
        engine = made.Engine()  # type: ignore[attr-defined]  # registered
        result = engine.end()
        with pytest.raises(EOFError, match="closed the connection"):
            result.get()
        with pytest.raises(OSError):  # noqa: PT011  which one depends on the system
            engine.drive(1).get()
