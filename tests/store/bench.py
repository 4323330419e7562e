"""How fast arrays go into the store and come out, beside numpy's own copy: ``python -m tests.store.bench``."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fibernb import serialize
from fibernb.store.agent import StoreAgent
from tests.store.serving import KEY, serving

SIZES_MB = (1, 10, 100, 800)
ROUNDS = 3
WARM_S = 2.0  # in which a new store warms its memory


def best_s(work: Callable[[], object], times: int) -> float:
    """The shortest of several runs: what is left when nothing else disturbs."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def measure(agent: StoreAgent, size_bytes: int) -> str:
    array = np.ones(size_bytes, "u1")
    target = array.copy()
    times = max(3, min(50, 2 * 10**9 // size_bytes))

    def put() -> None:
        agent.abandon(serialize.pack(array, "value", agent).blocks)

    first = size_bytes / best_s(put, 1) / 1e9
    rates = [
        (size_bytes / best_s(lambda: np.copyto(target, array), times), size_bytes / best_s(put, times))
        for _ in range(ROUNDS)
    ]
    copied, stored = (max(rate) / 1e9 for rate in zip(*rates, strict=True))
    packed = serialize.pack(array, "value", agent)
    mapped = best_s(lambda: serialize.loads(packed.data, agent), 20)
    agent.abandon(packed.blocks)
    return (
        f"{size_bytes / 1e6:6.0f} MB: first put {first:5.2f} GB/s, hot put {stored:5.2f} GB/s, numpy's copy "
        f"{copied:5.2f} GB/s, ratio {stored / copied:.2f}; get {mapped * 1e3:.3f} ms"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, serving(Path(directory)) as store:
        agent = StoreAgent(store.directory, KEY, "a benchmark", 100_000)
        agent.prepare()
        time.sleep(WARM_S)
        for size_mb in SIZES_MB:
            print(measure(agent, size_mb * 10**6), flush=True)
        agent.close()


if __name__ == "__main__":
    main()
