# mypy: disable-error-code="attr-defined,untyped-decorator"
"""The first page of Ray Core: a task, an actor, an object."""

from __future__ import annotations

import numpy as np

import fibernb as ray
from tests.integration.conftest import Place


def test_a_cluster_is_there() -> None:
    assert ray.is_initialized()
    assert ray.cluster_resources()["CPU"] == 4
    assert ray.cluster_resources()["GPU"] == 2
    assert ray.cluster_resources()["special"] == 2
    assert len(ray.nodes()) == 1
    assert ray.nodes()[0]["Alive"] is True
    assert ray.nodes()[0]["Resources"]["CPU"] == 4


def test_initializing_again_is_harmless() -> None:
    ray.init(ignore_reinit_error=True)
    assert ray.is_initialized()


def test_a_task() -> None:
    @ray.remote
    def square(x: int) -> int:
        return x * x

    assert ray.get([square.remote(x) for x in range(4)]) == [0, 1, 4, 9]


def test_an_actor() -> None:
    @ray.remote
    class Counter:
        def __init__(self) -> None:
            self.total = 0

        def get(self) -> int:
            return self.total

        def add(self, value: int) -> None:
            self.total += value

    counter = Counter.remote()
    for _ in range(10):
        counter.add.remote(1)
    assert ray.get(counter.get.remote()) == 10


def test_an_object_is_passed_by_reference() -> None:
    @ray.remote
    def total(matrix: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
        return float(matrix.sum())

    assert ray.get(total.remote(np.ones((100, 100)))) == 10_000
    matrix = ray.put(np.ones((1000, 1000)))
    assert ray.get(total.remote(matrix)) == 1_000_000


def test_the_first_call_starts_a_cluster(place: Place) -> None:
    done = place.run(
        """
        import fibernb as ray

        @ray.remote
        def one():
            return 1

        assert not ray.is_initialized()
        print(ray.get(one.remote()), ray.is_initialized())
        """
    )
    assert (done.stdout, done.stderr) == ("1 True\n", "")


def test_shutdown_and_start_again(place: Place) -> None:
    done = place.run(
        """
        import fibernb as ray

        @ray.remote
        def one():
            return 1

        for _ in range(2):
            ray.init(num_cpus=1)
            assert ray.get(one.remote()) == 1
            ray.shutdown()
            ray.shutdown()
            assert not ray.is_initialized()
        print("done")
        """
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
