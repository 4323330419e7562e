"""What a ring makes of a large array: allreduce over four engines against what copying alone takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fibernb as fnb
from benchmarks.report import Check, Table, number

ENGINES = 4
ARRAY_BYTES = 100_000_000
SMALL_CALLS = 200


def timed(rounds: int, action: Callable[[], Any]) -> float:
    """Median of the seconds that an action takes on this rank, when all begin together; the first round is left out."""
    taken = []
    for _ in range(rounds + 1):
        fnb.barrier()
        begin = time.perf_counter()
        action()
        fnb.barrier()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken[1:])


def member(repeats: int, array_bytes: int) -> dict[str, float]:
    """Seconds of each case, on one rank."""
    source = np.full(array_bytes // 4, fnb.rank() + 1, np.float32)
    target = np.zeros_like(source)
    found = {
        "copy": timed(repeats, lambda: np.copyto(target, source)),
        "allreduce": timed(repeats, lambda: fnb.allreduce(source, out=target)),
        "reduce_scatter": timed(repeats, lambda: fnb.reduce_scatter(source)),
        "allgather": timed(repeats, lambda: fnb.allgather(source[: len(source) // ENGINES])),
        "broadcast": timed(repeats, lambda: fnb.broadcast(source if fnb.rank() == 0 else None, root=0)),
    }
    if not (fnb.allreduce(source) == sum(range(1, ENGINES + 1))).all():
        raise RuntimeError("the ring has not added up what it was given")
    few = np.ones(10)
    found["barrier"] = timed(repeats, many(fnb.barrier)) / SMALL_CALLS
    found["small allreduce"] = timed(repeats, many(lambda: fnb.allreduce(few))) / SMALL_CALLS
    return found


def many(action: Callable[[], Any]) -> Callable[[], None]:
    """The action many times over."""

    def repeat() -> None:
        for _ in range(SMALL_CALLS):
            action()

    return repeat


def ring_figures(repeats: int, array_bytes: int = ARRAY_BYTES) -> tuple[list[Check], Table]:
    cluster = fnb.init(workers=ENGINES)
    cluster.scale(ENGINES)
    cluster.push({"member": member, "repeats": repeats, "array_bytes": array_bytes})
    by_rank = cluster.ranks[:].run("member(repeats, array_bytes)")
    fnb.shutdown()
    seconds = {case: max(found[case] for found in by_rank) for case in by_rank[0]}
    check = Check(
        what=f"allreduce of {array_bytes // 10**6} MB over {ENGINES} engines: time against a copy on each at once",
        figure=seconds["allreduce"] / seconds["copy"],
        unit="times",
        bound=3.0,
        sense="at most",
    )
    return [check], table(seconds, array_bytes)


def table(seconds: dict[str, float], array_bytes: int) -> Table:
    share = (ENGINES - 1) / ENGINES  # of the array that each engine has to send, once for each half of an allreduce
    moved = {"copy": 1.0, "allreduce": 2 * share, "reduce_scatter": share, "allgather": share, "broadcast": 1.0}
    rows = [
        (case, number(seconds[case] * 1e3), number(part * array_bytes / seconds[case] / 1e9))
        for case, part in moved.items()
    ]
    rows += [(case, number(seconds[case] * 1e3), "") for case in ("barrier", "small allreduce")]
    return Table(
        title="Collectives",
        note=f"{ENGINES} engines of one cell, each with an array of {array_bytes // 10**6} MB of float32. *copy*: each "
        "copies its array once, all at the same time, which is what the memory of the machine allows; *small*: ten "
        "numbers. Sent: what a ring has to send at least from each engine, by the time that the slowest took.",
        head=("what", "ms", "sent by each engine, GB/s"),
        rows=rows,
    )
