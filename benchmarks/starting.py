"""How long it takes until the first line, and the first result."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from benchmarks.report import Check, Table, number

IMPORT = """
import time
begin = time.perf_counter()
import {module}
print(time.perf_counter() - begin, flush=True)
"""

FIRST_RESULT = {
    "FiberNB": """
import fibernb as fnb
print(fnb.get(fnb.remote(abs).remote(-1)), flush=True)
fnb.shutdown()
""",
    "FiberNB Pool": """
import fibernb.multiprocessing as multiprocessing
with multiprocessing.Pool() as pool:
    print(pool.apply(abs, (-1,)), flush=True)
""",
    "multiprocessing.Pool": """
import multiprocessing
with multiprocessing.Pool() as pool:
    print(pool.apply(abs, (-1,)), flush=True)
""",
    "ProcessPoolExecutor": """
from concurrent.futures import ProcessPoolExecutor
with ProcessPoolExecutor() as pool:
    print(pool.submit(abs, -1).result(), flush=True)
""",
    "Ray": """
import ray
ray.init(include_dashboard=False, log_to_driver=False)
print(ray.get(ray.remote(lambda x: abs(x)).remote(-1)), flush=True)
ray.shutdown()
""",
    "Dask distributed": """
from distributed import Client, LocalCluster
if __name__ == "__main__":
    with LocalCluster(threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        print(client.submit(abs, -1).result(), flush=True)
""",
    "ipyparallel": """
import ipyparallel, os
with ipyparallel.Cluster(n=os.cpu_count()) as client:
    print(client[:].apply_sync(abs, -1)[0], flush=True)
""",
}
MODULES = {
    "FiberNB": "fibernb",
    "FiberNB Pool": "fibernb.multiprocessing",
    "Ray": "ray",
    "Dask distributed": "distributed",
    "ipyparallel": "ipyparallel",
}


def import_s(module: str) -> float:
    """Seconds that an import takes in a new interpreter."""
    script = IMPORT.format(module=module)
    return float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)


def first_result_s(script: str) -> float:
    """Seconds from starting an interpreter until its first result is printed; its end is waited for, not counted."""
    begin = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        line = next((line.strip() for line in process.stdout if line.strip() == "1"), None)
        took = time.perf_counter() - begin
    if line is None:
        raise RuntimeError("a peer gave no result")
    return took


def starting_figures(repeats: int, peers: list[str]) -> tuple[list[Check], Table]:
    """``peers``: names that stand in `FIRST_RESULT`."""
    imports: dict[str, list[float]] = {name: [] for name in peers if name in MODULES}
    firsts: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(repeats):
        for name, times in imports.items():
            times.append(import_s(MODULES[name]))
        for name, times in firsts.items():
            times.append(first_result_s(FIRST_RESULT[name]))
    import_times = {name: statistics.median(times) for name, times in imports.items()}
    first_times = {name: statistics.median(times) for name, times in firsts.items()}
    checks = [
        Check(what="`import fibernb`", figure=1e3 * import_times["FiberNB"], unit="ms", bound=150, sense="at most"),
        Check(
            what="from nothing to the first result", figure=first_times["FiberNB"], unit="s", bound=1.5, sense="at most"
        ),
    ]
    rows = [
        (name, f"{1e3 * import_times[name]:,.0f}" if name in import_times else "", number(first_times[name]))
        for name in peers
    ]
    table = Table(
        title="Starting",
        note="From starting an interpreter to the first result of a task, on a cluster with a worker for every core.",
        head=("", "import, ms", "first result, s"),
        rows=rows,
    )
    return checks, table
