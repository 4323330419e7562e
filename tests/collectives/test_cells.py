"""Collectives over the ranks of cells, on real engines that are really killed."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fibernb as fnb
from fibernb.client.cluster import Cluster
from fibernb.errors import ClusterError, RingBroken, WorkerDied
from tests.collectives.conftest import Place, wait_until

ENGINES = 4
LARGE = 400_000  # items


@pytest.fixture(scope="module")
def four(place: Place) -> Iterator[Cluster]:
    cluster = fnb.init(workers=ENGINES, lease_s=5)
    cluster.scale(ENGINES, timeout_s=60)
    cluster.ranks[:].run("import os, signal\nimport numpy as np\nimport fibernb as fnb")
    yield cluster
    fnb.shutdown()


def run(cluster: Cluster, source: str) -> list[Any]:
    """What the cell gives on each rank, or raises there."""
    handle = cluster.run_cell(source)
    assert handle.wait(60), "the cell hangs"
    values, errors = handle.values(), handle.errors()
    return [errors.get(rank, values.get(rank)) for rank in handle.ranks]


def files(cluster: Cluster) -> list[Path]:
    """What rings have left in the cluster's directory."""
    return [path for path in cluster.directory.iterdir() if path.suffix == ".ring" or len(path.name) == 9]


def test_all_of_them(four: Cluster) -> None:
    found = run(
        four,
        f"""
        fnb.barrier()
        [
            fnb.allreduce(np.full({LARGE}, float(rank)))[[0, -1]].tolist(),
            fnb.allreduce(rank, "max"),
            fnb.broadcast("word" if rank == 2 else None, root=2),
            fnb.allgather(fnb.rank()),
            fnb.reduce_scatter(np.arange(8)).tolist(),
        ]
        """,
    )
    for rank, (total, most, word, ranks, part) in enumerate(found):
        assert (total, most, word, ranks) == ([6.0, 6.0], 3, "word", [0, 1, 2, 3])
        assert part == [8 * rank, 8 * rank + 4]
    assert not [path for path in files(four) if path.name != "store.sock"]


def test_the_ranks_of_the_cell_only(four: Cluster) -> None:
    assert four.ranks[[3, 1]].run("fnb.allgather(rank), fnb.broadcast(rank)") == [([3, 1], 3)] * 2
    assert four.ranks[2].run("fnb.allreduce(np.ones(2)).tolist(), fnb.allgather(rank)") == [([1.0, 1.0], [2])]


def test_every_cell_has_a_ring_of_its_own(four: Cluster) -> None:
    first, second = four.run_cell("fnb.allgather(('first', rank))"), four.run_cell("fnb.allgather(('second', rank))")
    assert first.result()[0] == [("first", rank) for rank in range(ENGINES)]
    assert second.result()[3] == [("second", rank) for rank in range(ENGINES)]


def test_where_there_are_none(four: Cluster) -> None:
    with pytest.raises(ClusterError, match="in neither"):
        fnb.barrier()
    with pytest.raises(ClusterError, match="in neither"):
        fnb.get(fnb.remote(fnb.barrier).remote())
    with pytest.raises(ClusterError, match="stands twice"):
        four.ranks[[0, 0]].run("fnb.barrier()")


def test_a_rank_that_does_something_else(four: Cluster) -> None:
    for source, reason in (
        ("if rank != 1: fnb.barrier()", "has ended its cell"),
        ("if rank == 1: raise ValueError('bad')\nfnb.barrier()", "bad"),
        ("fnb.barrier()\nif rank == 1: raise ValueError('bad')\nfnb.barrier()", "has ended its cell"),
    ):
        found = run(four, source)
        for rank in (0, 2, 3):
            assert isinstance(found[rank], RingBroken)
            assert (found[rank].rank, reason in found[rank].reason) == (1, True), found[rank]
    assert run(four, "fnb.allreduce(1)") == [ENGINES] * ENGINES


KILLS = {
    "before it comes": "if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\nfnb.barrier()",
    "between two": "fnb.barrier()\nif rank == 1: os.kill(os.getpid(), signal.SIGKILL)\nfnb.allgather(rank)",
    "while all wait for another": """
        import time
        fnb.barrier()
        if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
        if rank == 2:
            while not any(os.path.exists(f'/proc/{pid}') is False for pid in pids): time.sleep(0.01)
        fnb.barrier()
    """,
}


@pytest.mark.parametrize("when", sorted(KILLS))
def test_a_rank_that_is_killed(four: Cluster, when: str) -> None:
    pids = four.ranks[:].run("os.getpid()")
    four.push({"pids": pids[1:2]})
    found = run(four, KILLS[when])
    assert isinstance(found[1], WorkerDied)
    for rank in (0, 2, 3):
        assert isinstance(found[rank], RingBroken)
        assert found[rank].rank == 1
        assert "has died" in found[rank].reason
    assert run(four, "fnb.allreduce(1)") == [ENGINES] * ENGINES
    assert not [path for path in files(four) if path.name != "store.sock"]


@pytest.mark.parametrize("seed", range(6))
def test_kills_at_any_moment(four: Cluster, seed: int) -> None:
    """Whatever they were doing, all others are told, and nobody waits for ever."""
    chance = random.Random(seed)
    victim = chance.randrange(ENGINES)
    pid = four.ranks[victim].run("os.getpid()")[0]
    handle = four.run_cell(
        f"""
        with open(f'{four.directory}/begun-{seed}-{{rank}}', 'w'):
            pass
        own = np.ones({chance.choice([3, LARGE])})
        while True:
            fnb.allreduce(own, 'mean', out=own)
            fnb.allgather(rank)
            fnb.broadcast(own if rank == 1 else None, root=1)
            fnb.reduce_scatter(own)
        """
    )
    wait_until((four.directory / f"begun-{seed}-{victim}").exists, 60)
    os.kill(pid, signal.SIGKILL)
    assert handle.wait(60), "the cell hangs"
    errors = handle.errors()
    assert isinstance(errors.pop(victim), WorkerDied)
    assert len(errors) == ENGINES - 1
    for error in errors.values():
        assert isinstance(error, RingBroken)
        assert error.rank == victim


def test_an_interrupt_ends_it_everywhere(four: Cluster) -> None:
    handle = four.run_cell("while True: fnb.allreduce(np.ones(100_000))")
    wait_until(lambda: handle.states() == ["running"] * ENGINES)
    handle.cancel()
    assert handle.wait(60)
    pids = four.ranks[:].run("os.getpid(), fnb.allreduce(1)")
    assert [total for _, total in pids] == [ENGINES] * ENGINES


def test_an_interrupt_of_one_that_waits(four: Cluster) -> None:
    before = four.ranks[:].run("os.getpid()")
    handle = four.run_cell("if rank: fnb.barrier()\nelse:\n    import time; time.sleep(600)")
    wait_until(lambda: handle.states() == ["running"] * ENGINES)
    four.interrupt()
    assert handle.wait(60)
    assert four.ranks[:].run("os.getpid()") == before


def test_a_forked_child_is_no_member(four: Cluster) -> None:
    found = run(
        four,
        """
        fnb.barrier()
        child = os.fork()
        if not child:
            try: fnb.barrier()
            except fnb.errors.RingBroken: os._exit(3)
            os._exit(4)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        fnb.allgather(code)
        """,
    )
    assert found == [[3] * ENGINES] * ENGINES


def test_arrays_come_as_they_went(four: Cluster) -> None:
    four.push({"xs": np.arange(6).reshape(2, 3)})
    found = four.ranks[:].run("fnb.broadcast(np.asfortranarray(xs) if rank == 0 else None)")
    assert all(np.array_equal(value, np.arange(6).reshape(2, 3)) for value in found)
