# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Ray's anti-patterns: what they warn of works all the same, or is an error that says so; the better way works too."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from typing import Any

import numpy as np

import fibernb as ray


@ray.remote
def square(number: int) -> int:
    return number * number


def test_get_in_a_loop() -> None:
    assert [ray.get(square.remote(number)) for number in range(10)] == [number**2 for number in range(10)]
    assert ray.get([square.remote(number) for number in range(10)]) == [number**2 for number in range(10)]


def test_a_get_that_is_not_needed() -> None:
    @ray.remote
    def reduce(values: Any) -> int:
        return int(values.sum())

    @ray.remote
    def make() -> Any:
        return np.ones(200_000, dtype=np.int64)

    assert ray.get(reduce.remote(ray.get(make.remote()))) == 200_000
    assert ray.get(reduce.remote(make.remote())) == 200_000


def test_results_in_the_order_of_their_completion() -> None:
    rest = [square.remote(number) for number in range(20)]
    results = []
    while rest:
        done, rest = ray.wait(rest)
        results.append(ray.get(done[0]))
    assert sorted(results) == [number**2 for number in range(20)]


def test_too_many_objects_at_once() -> None:
    @ray.remote
    def make(number: int) -> Any:
        return np.full(50_000, number)

    refs = [make.remote(number) for number in range(40)]
    seen = 0
    while refs:
        ready, refs = ray.wait(refs, num_returns=min(8, len(refs)))
        seen += sum(int(array[0]) for array in ray.get(ready))
    assert seen == sum(range(40))


def test_tasks_too_small_are_put_together() -> None:
    @ray.remote
    def double(number: int) -> int:
        return 2 * number

    @ray.remote
    def double_all(numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

    numbers = list(range(1000))
    one_by_one = ray.get([double.remote(number) for number in numbers])
    together = ray.get([double_all.remote(numbers[begin : begin + 100]) for begin in range(0, 1000, 100)])
    assert one_by_one == [value for part in together for value in part]


def test_a_function_that_is_defined_again_in_a_loop() -> None:
    results = []
    for factor in range(5):

        @ray.remote
        def times(number: int, factor: int = factor) -> int:
            return number * factor

        results.append(times.remote(10))
    assert ray.get(results) == [0, 10, 20, 30, 40]


def test_a_large_argument_passed_by_value_again_and_again() -> None:
    @ray.remote
    def length(values: Any) -> int:
        return len(values)

    large = np.zeros(500_000)
    assert ray.get([length.remote(large) for _ in range(5)]) == [500_000] * 5
    ref = ray.put(large)
    assert ray.get([length.remote(ref) for _ in range(5)]) == [500_000] * 5


def test_a_large_object_captured_by_a_closure() -> None:
    large = np.ones(500_000)

    @ray.remote
    def captured() -> float:
        return float(large.sum())

    large_ref = ray.put(large)

    @ray.remote
    def by_reference() -> float:
        return float(ray.get(large_ref).sum())

    assert ray.get([captured.remote(), by_reference.remote()]) == [500_000.0, 500_000.0]


def test_global_variables_are_not_shared() -> None:
    namespace: dict[str, Any] = {"ray": ray}
    exec(
        "total = 3\n"
        "@ray.remote\n"
        "class Reader:\n"
        "    def read(self):\n"
        "        return total\n"
        "reader = Reader.remote()\n"
        "first = ray.get(reader.read.remote())\n"
        "total = 4\n"
        "second = ray.get(reader.read.remote())\n",
        namespace,
    )
    assert (namespace["first"], namespace["second"]) == (3, 3)

    @ray.remote
    class Global:
        def __init__(self, value: int) -> None:
            self.value = value

        def set(self, value: int) -> None:
            self.value = value

        def get(self) -> int:
            return self.value

    shared = Global.remote(3)
    ray.get(shared.set.remote(4))
    assert ray.get(shared.get.remote()) == 4


def test_put_as_a_result() -> None:
    @ray.remote
    def by_put() -> Any:
        return ray.put(np.zeros(200_000))

    @ray.remote
    def by_value() -> Any:
        return np.zeros(200_000)

    assert ray.get(ray.get(by_put.remote())).shape == ray.get(by_value.remote()).shape == (200_000,)


def test_references_pickled_out_of_band() -> None:
    """A pickle of one's own keeps the object for the rest of the session, rather than losing it."""
    ref = ray.put("kept")
    pickled = pickle.dumps(ref)
    del ref
    assert ray.get(pickle.loads(pickled)) == "kept"

    @ray.remote
    def load(data: bytes) -> Any:
        return ray.get(pickle.loads(data))

    assert ray.get(load.remote(pickled)) == "kept"


def test_new_processes_inside_of_a_task() -> None:
    @ray.remote
    def start() -> int | None:
        process = multiprocessing.get_context("spawn").Process(target=os.getpid)
        process.start()
        process.join()
        return process.exitcode

    assert ray.get(start.remote(), timeout=60) == 0


def test_a_nested_get_does_not_hold_up_others() -> None:
    @ray.remote
    def wait_for(refs: list[Any]) -> list[int]:
        return list(ray.get(refs))

    waiting = [wait_for.remote([square.remote(number)]) for number in range(12)]
    assert ray.get(waiting, timeout=30) == [[number**2] for number in range(12)]
