"""Evolution strategies of the Fiber paper's shape on many engines.

A table of noise that all share, and 2,048 evaluations an iteration, each of which sleeps for 50 to 200 ms in place of a
simulation.
"""

from __future__ import annotations

import functools
import itertools
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psutil

import fibernb as fnb
import fibernb.multiprocessing as multiprocessing
from benchmarks.report import Check, Table, number
from benchmarks.scaling import fibernb_processes
from fibernb.util import NoiseTable

Vector = npt.NDArray[np.float32]

EVALUATIONS: Final = 2_048
NOISE_LENGTH: Final = 25_000_000  # 100 MB
PARAMETERS: Final = 2_000
SIGMA: Final = 0.05
RATE: Final = 0.02
SHORTEST_S: Final = 0.05
LONGEST_S: Final = 0.2
SIZES: Final = (32, 64, 128, 256, 512, 1_024)
TARGET: Final = np.sin(np.arange(PARAMETERS, dtype=np.float32))

NOISE: Final = NoiseTable(NOISE_LENGTH, seed=1)


def noise(index: int) -> Vector:
    return NOISE.get(index, PARAMETERS)


def duration_s(index: int) -> float:
    """How long the simulation of a try takes: it depends on nothing else, so every run sleeps the same."""
    return SHORTEST_S + (LONGEST_S - SHORTEST_S) * (index % 1_009) / 1_008


def reward(parameters: Vector) -> float:
    return -float(((parameters - TARGET) ** 2).sum())


def evaluate(parameters: Vector, task: tuple[int, int]) -> float:
    """The reward of a try: the parameters moved by a piece of the table, forwards or backwards."""
    index, sign = task
    time.sleep(duration_s(index))
    return reward(parameters + sign * SIGMA * noise(index))


@dataclass(frozen=True, kw_only=True)
class Run:
    """What an iteration came to on so many engines."""

    engines: int
    start_s: float  # until all of them had answered
    iteration_s: float
    asleep_s: float  # the least that the sleeping alone can take
    processor_s: float  # that all processes together were running, for one iteration
    better: bool  # the reward grew

    @property
    def limit_s(self) -> float:
        """What the machine's cores need for it, however many engines there are."""
        return self.processor_s / (os.cpu_count() or 1)


def busy_s() -> float:
    """Seconds that this process and those of the cluster have kept cores busy."""
    times = [process.cpu_times() for process in (psutil.Process(), *fibernb_processes())]
    return float(sum(each.user + each.system for each in times))


def least_s(indices: Sequence[int], engines: int) -> float:
    """Nobody sleeps less than the longest try, nor all of them together less than their sum."""
    durations = [duration_s(index) for index in indices for _ in range(2)]
    return max(*durations, sum(durations) / engines)


def iteration(pool: Any, parameters: Vector, indices: Sequence[int]) -> Vector:
    """The parameters after one step along the noise that did well."""
    tasks = [(index, sign) for index in indices for sign in (1, -1)]
    rewards = np.array(pool.map(functools.partial(evaluate, parameters), tasks, chunksize=1), np.float32).reshape(-1, 2)
    weights = (rewards[:, 0] - rewards[:, 1]) / (rewards.std() + 1e-8)
    pulls = sum(weight * noise(index) for weight, index in zip(weights, indices, strict=True))
    moved: Vector = (parameters + RATE * pulls / len(indices)).astype(np.float32)
    return moved


def reads_noise(_: int) -> int:
    """What an engine does before the clock runs. Gives its process, so that one can see whether all have done it."""
    time.sleep(LONGEST_S)
    noise(0)
    return os.getpid()


def wait_started(pool: Any, engines: int) -> None:
    """Until every engine has answered."""
    seen: set[int] = set()
    while len(seen) < engines:
        seen.update(pool.map(reads_noise, range(engines), chunksize=1))


def run(engines: int, iterations: int, evaluations: int) -> Run:
    random = np.random.default_rng(engines)
    parameters = np.zeros(PARAMETERS, np.float32)
    begin = time.perf_counter()
    with multiprocessing.Pool(engines) as pool:
        wait_started(pool, engines)
        start_s = time.perf_counter() - begin
        times, least, busy = [], [], busy_s()
        for _ in range(iterations):
            indices = [NOISE.sample(random, PARAMETERS) for _ in range(evaluations // 2)]
            begin = time.perf_counter()
            parameters = iteration(pool, parameters, indices)
            times.append(time.perf_counter() - begin)
            least.append(least_s(indices, engines))
        busy = busy_s() - busy
    return Run(
        engines=engines,
        start_s=start_s,
        iteration_s=statistics.median(times),
        asleep_s=statistics.median(least),
        processor_s=busy / iterations,
        better=reward(parameters) > reward(np.zeros(PARAMETERS, np.float32)),
    )


def checks_of(runs: Sequence[Run]) -> list[Check]:
    """Every run completes and learns; with the engines doubled, time falls until the cores are what takes it."""
    found = [
        Check(
            what="evolution strategies: runs that completed and learned, of 32 to 1,024 engines",
            figure=sum(each.better for each in runs),
            unit="runs",
            bound=len(runs),
            sense="at least",
        )
    ]
    for less, more in itertools.pairwise(runs):
        if more.limit_s < more.asleep_s:
            found.append(
                Check(
                    what=f"evolution strategies: an iteration with {more.engines:,} engines against {less.engines:,}",
                    figure=more.iteration_s / less.iteration_s,
                    unit="times",
                    bound=1,
                    sense="at most",
                )
            )
    return found


def evolution_figures(
    iterations: int, sizes: Sequence[int] = SIZES, evaluations: int = EVALUATIONS
) -> tuple[list[Check], Table]:
    runs = []
    for size in sizes:
        runs.append(run(size, iterations, evaluations))
        fnb.shutdown()
    title = f"Evolution strategies: {evaluations:,} evaluations an iteration, each a sleep of 50 to 200 ms"
    return checks_of(runs), Table(
        title=title,
        note="A pool of so many engines; a table of noise of 100 MB lies in memory that they share. Sleep: what the "
        "sleeping alone takes at least. Cores: the time for which all processes kept cores busy, divided by the number "
        "of cores; no number of engines can bring it below that.",
        head=("engines", "start, s", "an iteration, s", "sleep, s", "cores, s"),
        rows=[
            (
                f"{each.engines:,}",
                number(each.start_s),
                number(each.iteration_s),
                number(each.asleep_s),
                number(each.limit_s),
            )
            for each in runs
        ],
    )
