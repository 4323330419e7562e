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

table: Vector = np.empty(0, np.float32)  # the noise, in every engine


def have_noise(references: list[Any]) -> None:
    """Every engine begins by looking at the table, which lies in memory that all of them share."""
    global table
    table = fnb.get(references[0])


def noise(index: int) -> Vector:
    return table[index : index + PARAMETERS]


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


def iteration(pool: Any, parameters: Vector, indices: Sequence[int], here: Vector) -> Vector:
    """The parameters after one step along the noise that did well."""
    tasks = [(index, sign) for index in indices for sign in (1, -1)]
    rewards = np.array(pool.map(functools.partial(evaluate, parameters), tasks, chunksize=1), np.float32).reshape(-1, 2)
    weights = (rewards[:, 0] - rewards[:, 1]) / (rewards.std() + 1e-8)
    pulls = sum(weight * here[index : index + PARAMETERS] for weight, index in zip(weights, indices, strict=True))
    moved: Vector = (parameters + RATE * pulls / len(indices)).astype(np.float32)
    return moved


def run(engines: int, iterations: int, evaluations: int, here: Vector) -> Run:
    """``here``: the table, as the owner has it."""
    references = [fnb.put(here)]
    random = np.random.default_rng(engines)
    parameters = np.zeros(PARAMETERS, np.float32)
    begin = time.perf_counter()
    with multiprocessing.Pool(engines, have_noise, (references,)) as pool:
        pool.map(time.sleep, [0.1] * engines, chunksize=1)
        start_s = time.perf_counter() - begin
        times, least, busy = [], [], busy_s()
        for _ in range(iterations):
            indices = random.integers(0, len(here) - PARAMETERS, evaluations // 2).tolist()
            begin = time.perf_counter()
            parameters = iteration(pool, parameters, indices, here)
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
    here = np.random.default_rng(1).standard_normal(NOISE_LENGTH, dtype=np.float32)
    runs = []
    for size in sizes:
        runs.append(run(size, iterations, evaluations, here))
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
