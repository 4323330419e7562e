"""Many engines: how soon they are there and gone, what they weigh, and what they cost while nothing runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

import fibernb as fnb
from benchmarks.report import Check, Table, number

IDLE_WATCH_S = 10.0
SETTLE_S = 3.0


def fibernb_processes() -> list[psutil.Process]:
    """The node and the engines of the clusters that this process started, the hub included."""
    hub = psutil.Process(fnb.init().status().pid)
    return [hub, *hub.children(recursive=True)]


def engine_pids() -> list[int]:
    return [seat.pid for seat in fnb.init().status().engines if seat.pid]


def proportional_memory_bytes(pid: int) -> int:
    """Memory of a process, pages shared by n processes counted as an n-th."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no Pss in the smaps_rollup of process {pid}")


def scale_up_s(cluster: fnb.Cluster, seats: int) -> float:
    """Seconds until all engines are registered and each has answered a call."""
    begin = time.perf_counter()
    cluster.scale(seats)
    answers = cluster.ranks[:].apply(abs, -1)
    took = time.perf_counter() - begin
    if answers != [1] * seats:
        raise RuntimeError(f"only {len(answers)} of {seats} engines answered")
    return took


def scale_down_s(cluster: fnb.Cluster) -> float:
    """Seconds until no seat is left and no engine's process either."""
    pids = engine_pids()
    begin = time.perf_counter()
    cluster.scale(0)
    while any(psutil.pid_exists(pid) for pid in pids):
        time.sleep(0.005)
    return time.perf_counter() - begin


def idle_share(process: psutil.Process) -> float:
    """Percent of one core that an idle process takes."""
    before = process.cpu_times()
    begin = time.perf_counter()
    time.sleep(IDLE_WATCH_S)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return max(0.0, 100 * used / (time.perf_counter() - begin))


def stop_s() -> float:
    """Seconds until the whole cluster is gone: hub, node and engines."""
    processes = fibernb_processes()
    begin = time.perf_counter()
    fnb.shutdown()
    _gone, alive = psutil.wait_procs(processes, timeout=60)
    if alive:
        raise RuntimeError(f"{len(alive)} processes outlived their cluster by a minute")
    return time.perf_counter() - begin


def scaling_figures(repeats: int, sizes: Sequence[int] = (256, 1024)) -> tuple[list[Check], Table]:
    """Figures at each size; memory and idling are taken once each has settled."""
    up: dict[int, list[float]] = {size: [] for size in sizes}
    down: dict[int, list[float]] = {size: [] for size in sizes}
    stop: dict[int, list[float]] = {size: [] for size in sizes}
    memory: dict[int, float] = {}
    idle: dict[int, float] = {}
    for turn in range(repeats):
        for size in sizes:
            cluster = fnb.init(workers=1)
            up[size].append(scale_up_s(cluster, size))
            if turn == 0:
                time.sleep(SETTLE_S)
                memory[size] = statistics.mean(map(proportional_memory_bytes, engine_pids())) / 1e6
                idle[size] = idle_share(psutil.Process(cluster.status().pid))
            down[size].append(scale_down_s(cluster))
            cluster.scale(size)
            stop[size].append(stop_s())
    ready = {size: statistics.median(times) for size, times in up.items()}
    gone = {size: statistics.median(times) for size, times in down.items()}
    ended = {size: statistics.median(times) for size, times in stop.items()}
    limits = {256: 2.0, 1024: 6.0}
    checks = [
        *(
            Check(
                what=f"{size:,} engines ready: all registered and answering",
                figure=ready[size],
                unit="s",
                bound=limits[size],
                sense="at most",
            )
            for size in sizes
        ),
        *(
            Check(
                what=f"{size:,} engines down, no process left",
                figure=max(gone[size], ended[size]),
                unit="s",
                bound=2,
                sense="at most",
            )
            for size in sizes
        ),
        Check(
            what="proportional memory of an idle engine, 256 engines",
            figure=memory[sizes[0]],
            unit="MB",
            bound=4,
            sense="at most",
        ),
        Check(
            what=f"an idle hub with {sizes[-1]:,} engines, share of a core",
            figure=idle[sizes[-1]],
            unit="%",
            bound=3,
            sense="at most",
        ),
    ]
    table = Table(
        title="Many engines",
        note="From a running hub. Up: until every engine has answered a call. Down: `scale(0)` until no engine's "
        "process exists; stop: `shutdown()` until hub and node are gone too. Memory is the mean proportional set size "
        "(PSS) of an idle engine.",
        head=("engines", "up, s", "down, s", "stop, s", "memory of one, MB", "idle hub, % of a core"),
        in_readme=True,
        rows=[
            (
                f"{size:,}",
                number(ready[size]),
                number(gone[size]),
                number(ended[size]),
                number(memory[size]),
                number(idle[size]),
            )
            for size in sizes
        ],
    )
    return checks, table
