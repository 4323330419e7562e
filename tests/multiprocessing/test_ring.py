"""Rings of processes, whose members are really killed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import fibernb as fnb
import fibernb.multiprocessing as multiprocessing
from fibernb.client.cluster import Cluster
from fibernb.errors import ClusterError, ConfigError, RemoteTraceback, RingBroken, TaskUnschedulable
from fibernb.multiprocessing.ring import Ring, RingMember, RingNode, current_ring
from tests.multiprocessing.conftest import Place, wait_until

LARGE = 200_000  # items


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: Cluster) -> Iterator[None]:
    before = set(cluster.directory.iterdir())
    yield
    left = {
        path for path in set(cluster.directory.iterdir()) - before if not path.is_dir() and path.name != "store.sock"
    }
    assert not left
    assert not multiprocessing.active_children()


def test_a_ring(cluster: Cluster) -> None:
    def function(rank: int, size: int) -> list[Any]:
        fnb.barrier()
        total = fnb.allreduce(np.full(LARGE, float(rank)))
        part = fnb.reduce_scatter(np.arange(6))
        return [rank, size, fnb.rank(), fnb.size(), total[-1], fnb.allgather(rank), fnb.broadcast(rank, 1), list(part)]

    found = Ring(3, function).run()
    for rank in range(3):
        assert found[rank] == [rank, 3, rank, 3, 3.0, [0, 1, 2], 1, [6 * rank, 6 * rank + 3]]


def test_an_initializer_as_fibers(cluster: Cluster) -> None:
    def set_up(ring: RingMember, word: str) -> None:
        global here
        here = ring, word  # type: ignore[name-defined]

    def function(rank: int, size: int) -> tuple[str, tuple[RingNode, ...], list[int], int]:
        ring, word = here  # type: ignore[name-defined]
        return word, ring.members, ring.allgather(os.getpid()), ring.generation

    ring = Ring(2, function, set_up, ["word"])
    for _ in range(2):
        found = ring.run()
        assert found[0] == found[1]
        word, members, pids, generation = found[0]
        assert (word, generation) == ("word", 0)
        assert [node.rank for node in members] == [0, 1]
        assert [node.pid for node in members] == pids
        assert all(node.connected and node.ip and node.port for node in members)


def test_small_rings(cluster: Cluster) -> None:
    assert Ring(0, lambda rank, size: 1 / 0).run() == []
    assert Ring(1, lambda rank, size: (rank, size, fnb.allreduce(5), fnb.allgather("x"))).run() == [(0, 1, 5, ["x"])]
    with pytest.raises(ConfigError, match="0 or more"):
        Ring(-1, print)
    with pytest.raises(TypeError):
        Ring("3", print)  # type: ignore[arg-type]
    assert multiprocessing.Ring is Ring


def test_what_a_function_raises(cluster: Cluster) -> None:
    def function(rank: int, size: int) -> None:
        if rank == 1:
            raise KeyError("mine")
        fnb.barrier()

    with pytest.raises(KeyError, match="mine") as caught:
        Ring(3, function).run()
    assert isinstance(caught.value.__cause__, RemoteTraceback)


def test_others_are_ended_when_one_has_failed(cluster: Cluster) -> None:
    def function(rank: int, size: int) -> None:
        fnb.barrier()
        if rank == 1:
            raise KeyError("mine")
        signal.signal(signal.SIGTERM, signal.SIG_IGN if rank == 2 else signal.SIG_DFL)
        time.sleep(600)

    with pytest.raises(KeyError, match="mine"):
        Ring(3, function).run()


def test_a_value_that_cannot_travel(cluster: Cluster) -> None:
    with pytest.raises(TypeError, match="the function's value"):
        Ring(2, lambda rank, size: threading.Lock()).run()


def test_one_that_ends_early(cluster: Cluster) -> None:
    with pytest.raises(RingBroken, match="rank 0 has ended"):
        Ring(2, lambda rank, size: fnb.barrier() if rank else None).run()
    with pytest.raises(SystemExit):
        Ring(2, lambda rank, size: exit(3)).run()


@pytest.mark.parametrize("victim", range(3))
def test_a_member_that_is_killed(cluster: Cluster, victim: int) -> None:
    def function(rank: int, size: int) -> Any:
        fnb.barrier()
        if rank == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            fnb.allreduce(np.ones(LARGE))
        except RingBroken as error:
            return error.rank
        return None

    with pytest.raises(RingBroken, match=f"rank {victim} has died.*SIGKILL") as caught:
        Ring(3, function).run()
    assert caught.value.rank == victim


def test_meta(cluster: Cluster) -> None:
    @fnb.meta(cpu=1)
    def function(rank: int, size: int) -> float:
        return fnb.get_runtime_context().get_assigned_resources()["CPU"]

    assert Ring(1, function).run() == [1.0]


@fnb.meta(cpu=500)
def giant(rank: int, size: int) -> None: ...


def test_a_ring_that_needs_more_than_there_can_be(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TaskUnschedulable, match="500 cpus"):
        Ring(2, giant).run()
    assert "could not be started" not in capsys.readouterr().err


def test_an_interrupt_ends_the_ring(place: Place) -> None:
    found = place.run(
        """
        import os, signal, sys, threading
        import fibernb as fnb
        from fibernb.multiprocessing import Ring

        def function(rank, size):
            fnb.barrier()
            if rank == 0:
                os.kill(owner, signal.SIGINT)
            while True:
                fnb.barrier()

        owner = os.getpid()
        fnb.init(workers=2, name="interrupted")
        try:
            Ring(2, function).run()
        except KeyboardInterrupt:
            print("interrupted", fnb.get(fnb.remote(lambda: 5).remote()))
        """
    )
    assert found.stdout == "interrupted 5\n", found.stderr


# ---- rebuilding ----------------------------------------------------------------------------------------------


def steps(items: int, notes: str) -> Callable[[int, int], tuple[list[int], int]]:
    """A function that works through steps until it is told that it is over, and rebuilds its ring when that breaks."""

    def function(rank: int, size: int) -> tuple[list[int], int]:
        own = np.full(items, 1.0)
        step, over, done = 0, False, []
        is_new = current_ring().generation > 0
        agreed = not is_new
        while not over:
            try:
                if not agreed:
                    step = min(other for other in fnb.allgather(None if is_new else step) if other is not None)
                    is_new, agreed = False, True
                assert (fnb.allreduce(own) == size).all()
                over = any(fnb.allgather(Path(notes, "over").exists()))
            except RingBroken:
                agreed = False
                current_ring().rebuild()
                continue
            done.append(step)
            step += 1
            draft = Path(notes, f"draft-{rank}")
            draft.write_text(str(os.getpid()))
            draft.replace(Path(notes, str(rank)))
        return done, current_ring().generation

    return function


@pytest.mark.parametrize("seed", range(6))
def test_a_ring_is_rebuilt_whoever_dies_and_when(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    victims = chance.sample(range(3), 1 + seed % 2)

    def kill() -> None:
        for victim in victims:
            note = tmp_path / str(victim)
            wait_until(note.exists, 60)
            pids.append(int(note.read_text()))
            os.kill(pids[-1], signal.SIGKILL)
        wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), 60)
        (tmp_path / "over").touch()

    pids: list[int] = []
    killer = threading.Thread(target=kill)
    killer.start()
    found = Ring(3, steps(chance.choice([3, LARGE]), str(tmp_path))).run()
    killer.join()
    for rank, (done, generation) in enumerate(found):
        assert generation >= 1
        if rank not in victims:
            assert sorted(set(done)) == list(range(done[-1] + 1))


def test_a_ring_is_rebuilt_without_a_death(cluster: Cluster) -> None:
    def function(rank: int, size: int) -> tuple[int, int]:
        with pytest.raises(RingBroken):
            fnb.allreduce(np.ones(1)) if rank else fnb.barrier()
        current_ring().rebuild()
        return fnb.allreduce(1), current_ring().generation

    assert Ring(3, function).run() == [(3, 1)] * 3


def test_a_ring_is_not_rebuilt_around_one_that_has_ended(cluster: Cluster) -> None:
    def function(rank: int, size: int) -> str:
        if rank == 1:
            return "over"
        with pytest.raises(RingBroken):
            fnb.barrier()
        with pytest.raises(RingBroken) as caught:
            current_ring().rebuild()
        return str(caught.value)

    first, _, last = Ring(3, function).run()
    assert first.startswith("rebuild cannot be completed: rank ")
    assert last.endswith("has ended")


def test_outside_there_is_none(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="no member"):
        current_ring()


def test_members_end_with_the_process_that_runs_the_ring(place: Place) -> None:
    process = place.start(
        """
        import os, time
        import fibernb as fnb
        from fibernb.multiprocessing import Ring

        def function(rank, size):
            pids = fnb.allgather(os.getpid())
            if rank == 0:
                print(*pids, flush=True)
            time.sleep(600)

        fnb.init(workers=2, name="orphans", lease_s=1)
        Ring(2, function).run()
        """
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process, process.stdout, process.stderr:
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2
        process.kill()
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), 60)
