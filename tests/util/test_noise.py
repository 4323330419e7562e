from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import fibernb as fnb
import fibernb.multiprocessing as multiprocessing
from fibernb.client.cluster import Cluster
from fibernb.errors import ConfigError
from fibernb.util import NoiseTable, list_named_actors
from tests.integration.conftest import cluster, place

__all__ = ["cluster", "place"]


def test_all_read_the_same(cluster: Cluster) -> None:
    table = NoiseTable(1_000_000, seed=3)
    here = table.array
    assert here.dtype == np.float32
    assert abs(float(here.mean())) < 0.01
    assert abs(float(here.std()) - 1) < 0.01

    def read(table: NoiseTable, start: int) -> tuple[bytes, bool, bool]:
        found = table.get(start, 4)
        own = NoiseTable(1_000_000, seed=3)
        return found.tobytes(), found.flags.writeable, np.shares_memory(own.array, table.array)

    expected = [(here[start : start + 4].tobytes(), False, True) for start in (0, 999_996)]
    task = fnb.remote(read)
    assert fnb.get([task.remote(table, 0), task.remote(table, 999_996)]) == expected
    assert cluster.ranks[:].apply(read, table, 0) == expected[:1] * 2
    with multiprocessing.Pool(1) as pool:
        assert pool.apply(read, (table, 0)) == expected[0]
    assert NoiseTable(1_000_000, seed=4).array[0] != here[0]
    assert len(list_named_actors(all_namespaces=True)) == 2


def test_it_is_not_copied(cluster: Cluster) -> None:
    table = NoiseTable(5_000_000)

    def used() -> int:
        store: Any = fnb.current_cluster().session.store
        blocks: int = store.describe().blocks
        return blocks

    _ = table.array
    before = used()
    cluster.ranks[:].apply(lambda table: float(table.array[0]), table)
    assert used() == before
    assert not table.array.flags.writeable


def test_places(cluster: Cluster) -> None:
    table = NoiseTable(10)
    for random in (np.random.default_rng(1), np.random.RandomState(1)):
        places = {table.sample(random, 8) for _ in range(100)}
        assert places == {0, 1, 2}
    assert table.sample(np.random.default_rng(1), 10) == 0
    assert len(table.get(2, 8)) == 8
    for start, items in ((-1, 2), (0, 11), (5, 6), (0, -1)):
        with pytest.raises(IndexError):
            table.get(start, items)
    with pytest.raises(IndexError, match="more than"):
        table.sample(np.random.default_rng(1), 11)


def test_tables() -> None:
    table = NoiseTable(10, seed=2)
    assert (len(table), repr(table)) == (10, "NoiseTable(10, seed=2)")
    assert repr(pickle.loads(pickle.dumps(table))) == repr(table)
    for wrong in ((0, 0), (1, -1)):
        with pytest.raises(ConfigError):
            NoiseTable(*wrong)
    with pytest.raises(TypeError):
        NoiseTable(1.5)  # type: ignore[arg-type]
