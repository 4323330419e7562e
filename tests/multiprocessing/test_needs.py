"""What processes and pools ask the cluster for."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import fibernb as fnb
import fibernb.multiprocessing as multiprocessing
from fibernb.client.cluster import Cluster
from fibernb.model import Resources
from fibernb.multiprocessing import needs
from fibernb.multiprocessing.needs import MIB, resources_of
from tests.integration.conftest import wait_until


@fnb.meta(cpu=1, memory=10)
def greedy(*_: Any) -> None: ...


@fnb.meta(cpu=3)
class Large: ...


@pytest.fixture
def unconfigured() -> Iterator[None]:
    yield
    needs.configure({})


def test_nothing_is_said() -> None:
    assert resources_of(len, object()) == Resources(milli_cpus=0)


def test_a_function_says_it() -> None:
    expected = Resources(milli_cpus=1000, memory_bytes=10 * MIB)
    assert resources_of(greedy) == resources_of(functools.partial(greedy, 1)) == expected


def test_the_earlier_one_counts() -> None:
    assert resources_of(greedy, Large()) == Resources(milli_cpus=1000, memory_bytes=10 * MIB)
    assert resources_of(len, Large()) == Resources(milli_cpus=3000)


def test_what_is_configured_for_all(unconfigured: None) -> None:
    needs.configure({"cpu_per_job": 2, "mem_per_job": 1})
    assert resources_of(len) == Resources(milli_cpus=2000, memory_bytes=MIB)
    assert resources_of(greedy) == Resources(milli_cpus=1000, memory_bytes=10 * MIB)


# ---- on a cluster ----------------------------------------------------------------------------------------------


def available(resource: str) -> float:
    return fnb.available_resources().get(resource, 0)


def all_cpus(cluster: Cluster) -> float:
    """How many there are, once every seat has its engine and none is in use."""
    wait_until(lambda: available("CPU") == cluster.size)
    return cluster.size


@fnb.meta(cpu=1)
def hold(ready: Any, done: Any) -> None:
    ready.set()
    done.wait()


@fnb.meta(cpu=2)
class Holder(multiprocessing.Process):
    def __init__(self, ready: Any, done: Any) -> None:
        super().__init__()
        self.ready, self.done = ready, done

    def run(self) -> None:
        hold(self.ready, self.done)


def test_a_process_has_what_its_function_needs(cluster: Cluster) -> None:
    ready, done = multiprocessing.Event(), multiprocessing.Event()
    free = all_cpus(cluster)
    process = multiprocessing.Process(target=hold, args=(ready, done))
    process.start()
    ready.wait()
    assert available("CPU") == free - 1
    done.set()
    process.join()
    wait_until(lambda: available("CPU") == free)


def test_a_process_has_what_its_class_needs(cluster: Cluster) -> None:
    ready, done = multiprocessing.Event(), multiprocessing.Event()
    free = all_cpus(cluster)
    process = Holder(ready, done)
    process.start()
    ready.wait()
    assert available("CPU") == free - 2
    done.set()
    process.join()


def test_a_process_waits_until_there_is_enough(cluster: Cluster) -> None:
    ready, done, second = (multiprocessing.Event() for _ in range(3))
    first, next_ = Holder(ready, done), Holder(second, done)
    first.start()
    ready.wait()
    next_.start()
    assert not second.is_set()
    done.set()
    first.join()
    next_.join()
    assert second.is_set()


def nap(_: int) -> None: ...


@fnb.meta(cpu=1)
def nap_alone(gate: Any) -> None:
    gate.wait()


def test_what_one_pool_needs_does_not_leak_into_another(cluster: Cluster) -> None:
    free = all_cpus(cluster)
    gate = multiprocessing.Event()
    with multiprocessing.Pool(1) as heavy, multiprocessing.Pool(2) as light:
        waiting = heavy.apply_async(nap_alone, (gate,))
        wait_until(lambda: available("CPU") == free - 1)
        light.map(nap, range(10))
        assert available("CPU") == free - 1
        gate.set()
        waiting.get()


def test_threads_see_the_configuration(unconfigured: None) -> None:
    needs.configure({"cpu_per_job": 2})
    seen: list[Resources] = []
    thread = threading.Thread(target=lambda: seen.append(resources_of(len)))
    thread.start()
    thread.join()
    assert seen == [Resources(milli_cpus=2000)]
