"""Calls that go past the hub, in a real cluster: they are what they would be by way of it, whatever else happens."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from cloudpickle import register_pickle_by_value

import fibernb as fnb
from fibernb.client import current
from fibernb.client.cluster import Cluster
from fibernb.errors import GetTimeout, TaskCancelled
from fibernb.util import state
from tests.integration.conftest import wait_until
from tests.integration.direct import lead, pid

register_pickle_by_value(sys.modules[__name__])  # engines cannot import it


class _Counting:
    def __init__(self) -> None:
        self.count = 0

    def add(self, amount: int = 1) -> int:
        self.count += amount
        return self.count

    def slowly(self, seconds: float) -> int:
        time.sleep(seconds)
        return self.add()

    def aloud(self, text: str) -> int:
        print(text)
        return self.add()

    def fail(self, text: str) -> None:
        self.count += 1
        raise ValueError(text)

    def many(self, size: int) -> np.ndarray[Any, Any]:
        self.count += 1
        return np.full(size, self.count)

    def ask(self, other: Any) -> int:
        other.add.remote()
        return self.add()

    def pid(self) -> int:
        return os.getpid()


class _Awaiting:
    def __init__(self) -> None:
        self.count = 0

    async def add(self) -> int:
        self.count += 1
        return self.count


Counting: Any = fnb.remote(_Counting)
Awaiting: Any = fnb.remote(_Awaiting)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How many calls are answered by an engine itself."""
    session: Any = current.require()
    books, found = session.books, Counter[str]()
    original = books.take_answer

    def take_answer(result: Any) -> Any:
        found["direct"] += 1
        return original(result)

    books.take_answer = take_answer
    try:
        yield found
    finally:
        del books.take_answer


def until(condition: Callable[[], object], submit: Callable[[], fnb.ObjectRef]) -> list[Any]:
    """The values of calls, one at a time, until something is so."""
    values = [fnb.get(submit())]
    while not condition():
        values.append(fnb.get(submit()))
        assert len(values) < 100_000
    return values


def test_calls_of_an_actor(cluster: Cluster) -> None:
    counting = Counting.remote()
    last = lead(counting.add.remote, counting)
    with counted() as found:
        values = until(lambda: found["direct"] >= 50, counting.add.remote)
    assert values == list(range(last + 1, last + 1 + len(values)))


def test_calls_of_an_asyncio_actor(cluster: Cluster) -> None:
    awaiting = Awaiting.remote()
    last = lead(awaiting.add.remote, awaiting)
    with counted() as found:
        values = until(lambda: found["direct"] >= 50, awaiting.add.remote)
    assert values == list(range(last + 1, last + 1 + len(values)))


def test_tasks(cluster: Cluster) -> None:
    lead(pid.remote)
    with counted() as found:
        values = until(lambda: found["direct"] >= 50, pid.remote)
    assert set(values) <= {engine.pid for engine in cluster.status().engines}


def test_they_are_counted_and_stand_in_the_timeline(cluster: Cluster) -> None:
    lead(pid.remote)
    before = cluster.status().finished
    refs: list[fnb.ObjectRef] = []

    def submit() -> fnb.ObjectRef:
        refs.append(pid.remote())
        return refs[-1]

    with counted() as found:
        until(lambda: found["direct"] >= 20, submit)
    ids = {ref.hex() for ref in refs}
    wait_until(lambda: ids <= {row["task_id"] for row in state.list_tasks(limit=10_000)})
    assert cluster.status().finished >= before + len(ids)
    rows = {row["task_id"]: row for row in state.list_tasks(limit=10_000)}
    assert {rows[id_]["name"] for id_ in ids} == {"pid"}
    assert {rows[id_]["state"] for id_ in ids} == {"FINISHED"}


def test_what_a_call_prints_comes_before_its_value(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    counting = Counting.remote()
    last = lead(counting.add.remote, counting)
    assert fnb.get(counting.aloud.remote("one line")) == last + 1
    assert "one line" in capfd.readouterr().out
    assert fnb.get(counting.add.remote()) == last + 2


def test_what_a_call_raises(cluster: Cluster) -> None:
    counting = Counting.remote()
    last = lead(counting.add.remote, counting)
    with pytest.raises(ValueError, match="wrong"):
        fnb.get(counting.fail.remote("wrong"))
    assert fnb.get(counting.add.remote()) == last + 2  # it has run once
    failed = [row for row in state.list_tasks() if row["state"] == "FAILED"]
    assert "wrong" in failed[0]["error"]


def test_a_long_call_is_seen_and_runs_once(cluster: Cluster) -> None:
    counting = Counting.remote()
    last = lead(counting.add.remote, counting)
    ref = counting.slowly.remote(0.4)
    with pytest.raises(GetTimeout):
        fnb.get(ref, timeout=0.1)
    assert [row["name"] for row in state.list_tasks() if row["state"] == "RUNNING"] == ["_Counting.slowly"]
    assert fnb.get(ref) == last + 1
    assert fnb.get(counting.add.remote()) == last + 2


def test_a_large_value(cluster: Cluster) -> None:
    counting = Counting.remote()
    last = lead(counting.add.remote, counting)
    assert fnb.get(counting.many.remote(10**6))[-1] == last + 1
    assert fnb.get(counting.add.remote()) == last + 2


def test_what_a_call_submits_is_there_when_its_value_is(cluster: Cluster) -> None:
    first, second = Counting.remote(), Counting.remote()
    last = lead(first.add.remote, first)
    for turn in range(1, 21):
        assert fnb.get(first.ask.remote(second)) == last + turn
        assert fnb.get(second.add.remote(0)) == turn


def test_a_long_call_is_cancelled(cluster: Cluster) -> None:
    counting = Counting.remote()
    last = lead(counting.add.remote, counting)
    ref = counting.slowly.remote(60)
    with pytest.raises(GetTimeout):
        fnb.get(ref, timeout=0.1)
    fnb.cancel(ref)
    with pytest.raises(TaskCancelled):
        fnb.get(ref, timeout=20)
    assert fnb.get(counting.add.remote()) == last + 1


def test_an_interrupt_while_a_call_is_under_way(cluster: Cluster) -> None:
    counting = Counting.remote()
    last = lead(counting.add.remote, counting)
    timer = threading.Timer(0.005, lambda: os.kill(os.getpid(), signal.SIGINT))
    ref = counting.slowly.remote(0.5)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        fnb.get(ref)
    assert fnb.get(ref) == last + 1
    assert fnb.get(counting.add.remote()) == last + 2


def test_several_threads_keep_the_order_of_their_own(cluster: Cluster) -> None:
    counting = Counting.remote()
    last = lead(counting.add.remote, counting)
    seen: list[list[int]] = [[] for _ in range(4)]

    def run(mine: list[int]) -> None:
        for turn in range(100):
            refs = [counting.add.remote() for _ in range(1 + turn % 3)]
            mine += fnb.get(refs)

    threads = [threading.Thread(target=run, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in seen)
    assert sorted(itertools.chain(*seen)) == list(range(last + 1, last + 1 + sum(map(len, seen))))


def test_a_call_that_another_thread_needs_meanwhile(cluster: Cluster) -> None:
    @fnb.remote
    def twice(x: int) -> int:
        return 2 * x

    counting = Counting.remote()
    last = lead(counting.add.remote, counting)
    assert fnb.get(twice.remote(1)) == 2
    for turn in range(1, 11):
        ref = counting.slowly.remote(0.01)
        asked: list[Any] = []
        timer = threading.Timer(0.003, lambda ref=ref, asked=asked: asked.append(twice.remote(ref)))
        timer.start()
        assert fnb.get(ref) == last + turn
        timer.join()
        assert fnb.get(asked[0], timeout=20) == 2 * (last + turn)
