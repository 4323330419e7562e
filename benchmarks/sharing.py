"""One large array that many engines read: how much memory it takes, and how long the reading does."""

from __future__ import annotations

import time

import numpy as np

import fibernb as fnb
from benchmarks.report import Check, Table, number
from benchmarks.scaling import fibernb_processes, proportional_memory_bytes
from fibernb.client import current
from fibernb.store.agent import StoreAgent

ENGINES = 64
ARRAY_BYTES = 100_000_000
STEADY_S = 0.5
STEADY_BYTES = 2_000_000  # less than that is not growth


def memory_bytes() -> int:
    """Proportional memory of all processes of the cluster: what they share counts once.

    Without the pages that the store keeps ready for the next values: that reserve is the same whoever reads.
    """
    session = current.session
    store = None if session is None else session.store
    if not isinstance(store, StoreAgent):
        raise RuntimeError("there is no object store to measure")
    described = store.describe()
    total = sum(proportional_memory_bytes(process.pid) for process in fibernb_processes())
    return total - (described.warm_bytes - described.used_bytes)


def settled_memory_bytes() -> int:
    """The same, once the store has as much in reserve as it wants."""
    last, found = -1, memory_bytes()
    while abs(found - last) > STEADY_BYTES:
        time.sleep(STEADY_S)
        last, found = found, memory_bytes()
    return found


def read(refs: list[fnb.ObjectRef]) -> float:
    """The sum of the array, every page of which is looked at."""
    return float(fnb.get(refs[0]).sum())


def sharing_figures() -> tuple[list[Check], Table]:
    cluster = fnb.init(workers=ENGINES)
    cluster.scale(ENGINES)
    small = [fnb.put(np.ones(20_000))]
    cluster.ranks[:].apply(read, small)  # every engine has its link to the store
    array = np.ones(ARRAY_BYTES // 8)
    before = settled_memory_bytes()
    refs = [fnb.put(array)]
    begin = time.perf_counter()
    sums = cluster.ranks[:].apply(read, refs)
    took = time.perf_counter() - begin
    if sums != [ARRAY_BYTES / 8] * ENGINES:
        raise RuntimeError("an engine read something else than was put")
    copies = (settled_memory_bytes() - before) / ARRAY_BYTES
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
        "set size of all processes of the cluster grew meanwhile, without what the store keeps ready for the next "
        "values.",
        head=("engines", "memory, MB", "all have read it after, s"),
        rows=[(str(ENGINES), number(copies * ARRAY_BYTES / 1e6), number(took))],
    )
    return [check], table
