"""One large array that many engines read: how much memory it takes, and how long the reading does."""

from __future__ import annotations

import time

import numpy as np

import fibernb as fnb
from benchmarks.report import Check, Table, number
from benchmarks.scaling import fibernb_processes, proportional_memory_bytes

ENGINES = 64
ARRAY_BYTES = 100_000_000


def memory_bytes() -> int:
    """Proportional memory of all processes of the cluster: what they share counts once."""
    return sum(proportional_memory_bytes(process.pid) for process in fibernb_processes())


def read(refs: list[fnb.ObjectRef]) -> float:
    """The sum of the array, every page of which is looked at."""
    return float(fnb.get(refs[0]).sum())


def sharing_figures() -> tuple[list[Check], Table]:
    cluster = fnb.init(workers=ENGINES)
    cluster.scale(ENGINES)
    small = [fnb.put(np.ones(20_000))]
    cluster.ranks[:].apply(read, small)  # every engine has its link to the store
    array = np.ones(ARRAY_BYTES // 8)
    before = memory_bytes()
    refs = [fnb.put(array)]
    begin = time.perf_counter()
    sums = cluster.ranks[:].apply(read, refs)
    took = time.perf_counter() - begin
    if sums != [ARRAY_BYTES / 8] * ENGINES:
        raise RuntimeError("an engine read something else than was put")
    copies = (memory_bytes() - before) / ARRAY_BYTES
    fnb.shutdown()
    check = Check(
        what=f"a 100 MB array that {ENGINES} engines have read: memory against one copy",
        figure=copies,
        unit="times",
        bound=1.2,
        sense="at most",
    )
    table = Table(
        title="One array, many engines",
        note="An array of 100 MB is put once, and every engine reads all of it. Memory is how much the proportional "
        "set size of all processes of the cluster grew meanwhile; some of it may have stood ready before.",
        head=("engines", "memory, MB", "all have read it after, s"),
        rows=[(str(ENGINES), number(copies * ARRAY_BYTES / 1e6), number(took))],
    )
    return [check], table
