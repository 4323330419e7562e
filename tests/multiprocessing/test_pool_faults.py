"""Pools whose workers are killed, at any moment."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fibernb.multiprocessing as mp
from fibernb.client.cluster import Cluster
from fibernb.errors import WorkerDied
from fibernb.multiprocessing.pool import Pool
from fibernb.multiprocessing.pooling.members import Member
from tests.multiprocessing.conftest import wait_until

KILLS = 4  # of each method
RETRIES = 50  # so that chance does not kill an item too often


class Killer:
    """Kills one worker after another while a call runs, at moments of its own choice."""

    def __init__(self, pool: Pool, seed: int) -> None:
        self._pool = pool
        self._random = random.Random(seed)
        self._thread = threading.Thread(target=self._run)
        self.killed = 0

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        while self.killed < KILLS:
            wait_until(self._ready, 60)
            ready = self._ready()
            time.sleep(self._random.random() * 0.05)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._random.choice(ready).process.pid, signal.SIGKILL)
                self.killed += 1
                self._wait_for_change(ready)

    def _ready(self) -> list[Member]:
        return list(self._pool._owner._members.values())

    def _wait_for_change(self, before: list[Member]) -> None:
        wait_until(lambda: self._ready() != before, 60)


def square(x: int) -> int:
    return x * x


def slow(x: int) -> int:
    time.sleep(x % 7 / 1000)
    return x * x


ITEMS = range(300)
TINY = range(20_000)

METHODS: dict[str, Callable[[Pool], object]] = {
    "apply": lambda pool: [pool.apply(slow, (x,)) for x in ITEMS[:30]] == expected(ITEMS[:30]),
    "apply_async": lambda pool: [r.get() for r in [pool.apply_async(slow, (x,)) for x in ITEMS]] == expected(ITEMS),
    "map": lambda pool: pool.map(slow, ITEMS) == expected(ITEMS),
    "map in chunks": lambda pool: pool.map(slow, ITEMS, 7) == expected(ITEMS),
    "map of tiny items": lambda pool: pool.map(square, TINY) == expected(TINY),
    "starmap": lambda pool: pool.starmap(slow, [(x,) for x in ITEMS]) == expected(ITEMS),
    "map_async": lambda pool: pool.map_async(slow, ITEMS).get() == expected(ITEMS),
    "starmap_async": lambda pool: pool.starmap_async(slow, [(x,) for x in ITEMS]).get() == expected(ITEMS),
    "imap": lambda pool: list(pool.imap(slow, iter(ITEMS))) == expected(ITEMS),
    "imap in chunks": lambda pool: list(pool.imap(slow, ITEMS, 7)) == expected(ITEMS),
    "imap_unordered": lambda pool: Counter(pool.imap_unordered(slow, ITEMS)) == Counter(expected(ITEMS)),
}


def expected(items: range) -> list[int]:
    return [x * x for x in items]


@pytest.fixture(scope="module")
def pool(cluster: Cluster) -> Iterator[Pool]:
    with mp.Pool(3, max_retries=RETRIES) as made:
        yield made
    made.join()


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_lost_or_doubled_whoever_dies(pool: Pool, method: str) -> None:
    with Killer(pool, list(METHODS).index(method)) as killer:
        assert METHODS[method](pool)
        while not killer.is_done():
            assert METHODS[method](pool)
    assert killer.killed == KILLS
    assert METHODS[method](pool)
    assert not pool._cache
    wait_until(lambda: len(pool._owner._members) == 3, 60)


def test_callbacks_are_told_once_whoever_dies(pool: Pool) -> None:
    told: list[int] = []
    with Killer(pool, 1) as killer:
        calls = 0
        while not killer.is_done():
            results = [pool.apply_async(slow, (x,), callback=told.append) for x in ITEMS[:50]]
            calls += 1
            for result in results:
                result.wait()
    assert Counter(told) == Counter({x * x: calls for x in ITEMS[:50]})


def test_a_pool_that_is_closed_finishes_whoever_dies(cluster: Cluster) -> None:
    made = mp.Pool(3, max_retries=RETRIES, maxtasksperchild=20)
    results = [made.apply_async(slow, (x,)) for x in ITEMS]
    with Killer(made, 2):
        made.close()
        assert [result.get() for result in results] == expected(ITEMS)
    made.join()
    assert not made._pool


def test_one_item_kills_its_workers_and_the_others_are_answered(pool: Pool) -> None:
    def run(x: int) -> int:
        if x == 77:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    with mp.Pool(2) as made:
        results = [made.apply_async(run, (x,)) for x in range(200)]
        values = [result.get() for number, result in enumerate(results) if number != 77]
        assert values == [x for x in range(200) if x != 77]
        with pytest.raises(WorkerDied, match=r"SIGKILL.*died 3 times"):
            results[77].get()
        with pytest.raises(WorkerDied, match="item 77"):
            made.map(run, range(100))
        seen = []
        for index, values_of in enumerate([made.imap(run, range(100))] * 100):
            try:
                seen.append(next(values_of))
            except WorkerDied:
                assert index == 77
        assert seen == [x for x in range(100) if x != 77]


def test_a_worker_that_stopped_is_found_out_when_it_is_killed(pool: Pool, tmp_path: Path) -> None:
    def run(x: int) -> int:
        (tmp_path / f"{os.getpid()}").touch()
        if not (tmp_path / "again").exists():
            wait_until((tmp_path / "never").exists, 600)
        return x

    result = pool.map_async(run, range(30))
    wait_until(lambda: len(list(tmp_path.iterdir())) == 3, 30)
    (tmp_path / "again").touch()
    for path in tmp_path.iterdir():
        if path.name.isdecimal():
            os.kill(int(path.name), signal.SIGSTOP)
            os.kill(int(path.name), signal.SIGKILL)
    assert result.get() == list(range(30))
