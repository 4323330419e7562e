"""Pools while their hub is killed, and when their cluster changes or ends."""

from __future__ import annotations

import os
import signal
import time

import pytest

import fibernb as fnb
import fibernb.multiprocessing as mp
from fibernb.client.cluster import Cluster
from fibernb.errors import NotConnected
from tests.multiprocessing.conftest import wait_until

ITEMS = range(300)


def square(x: int) -> int:
    return x * x


def slow(x: int) -> int:
    time.sleep(x % 7 / 1000)
    return x * x


def expected(items: range) -> list[int]:
    return [x * x for x in items]


def test_a_pool_outlives_its_hub(own_cluster: Cluster) -> None:
    with mp.Pool(2) as made:
        result = made.map_async(slow, ITEMS)
        os.kill(own_cluster.status().pid, signal.SIGKILL)
        assert result.get() == expected(ITEMS)
        assert made.map(square, ITEMS) == expected(ITEMS)
        (process, _) = made._pool
        os.kill(process.pid, signal.SIGKILL)
        assert made.map(slow, ITEMS) == expected(ITEMS)
        wait_until(lambda: len(made._owner._members) == 2, 60)


def test_a_pool_without_a_number_follows_the_seats(own_cluster: Cluster) -> None:
    with mp.Pool() as made:
        assert len(made._pool) == len(own_cluster.ranks)
        own_cluster.scale(3)
        wait_until(lambda: len(made._pool) == 3, 30)
        made.resize(1)
        own_cluster.scale(2)
        wait_until(lambda: len(made._pool) == 1, 30)


def test_a_pool_ends_with_its_cluster(own_cluster: Cluster) -> None:
    made = mp.Pool(2)
    assert made.map(square, range(3)) == [0, 1, 4]
    fnb.shutdown()
    with pytest.raises(NotConnected, match="is not used any more"):
        made.apply(square, (1,))
    made.terminate()
    made.join()
    assert not fnb.is_initialized()
