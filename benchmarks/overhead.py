"""The overhead table of the Fiber paper (arXiv 2003.11164): five workers, tasks from 1 s down to 1 ms, one second of
sleep for each worker in all. What is beyond one second is overhead.
"""

from __future__ import annotations

import functools
import json
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.peers import LIGHT, Start, installed_heavy
from benchmarks.report import Check, Table
from benchmarks.rounds import seconds_in_rounds, warm_up
from benchmarks.throughput import rotated

WORKERS: Final = 5
OURS: Final = "FiberNB Pool"
EXECUTOR: Final = "FiberNB"
POOL: Final = "multiprocessing.Pool"
ROOT: Final = Path(__file__).parent.parent
FIBER_PYTHON: Final = ROOT / ".venv-fiber/bin/python"
NARROW: Final = 1.01  # times what multiprocessing takes: the bound from 10 ms up
WIDE: Final = 1.05  # the same at 1 ms, all at once


@dataclass(frozen=True, kw_only=True)
class Naps:
    """Tasks that sleep, so many at a time."""

    title: str
    function: str
    count: int
    of_a_round: int
    bound: float  # of our time against multiprocessing's


def naps_of(length: str, function: str, count: int, at_once: float, in_rounds: float) -> tuple[Naps, ...]:
    """The same tasks all at once, and in rounds of one for each worker."""
    once = Naps(title=f"{length} at once", function=function, count=count, of_a_round=count, bound=at_once)
    rounds = Naps(title=f"{length} in rounds", function=function, count=count, of_a_round=WORKERS, bound=in_rounds)
    return (once,) if count == WORKERS else (once, rounds)


NAPS: Final = (
    *naps_of("1 s", "sleep_1_s", 5, NARROW, NARROW),
    *naps_of("100 ms", "sleep_100_ms", 50, NARROW, NARROW),
    *naps_of("10 ms", "sleep_10_ms", 500, NARROW, NARROW),
    *naps_of("1 ms", "sleep_1_ms", 5_000, WIDE, 1),
)

Timer: TypeAlias = Callable[[Naps], float]  # seconds that they take a peer that has been started
StartTimer: TypeAlias = Callable[[], AbstractContextManager[Timer]]
Medians: TypeAlias = dict[str, dict[str, float]]  # seconds by peer, then by title


def timer(start: Start) -> StartTimer:
    """Of a peer that lives in this process."""

    @contextmanager
    def prepare() -> Iterator[Timer]:
        with start(WORKERS) as peer:
            warm_up(peer.map, WORKERS)
            yield lambda naps: seconds_in_rounds(peer.map, naps.function, naps.count, naps.of_a_round)

    return prepare


@contextmanager
def fiber() -> Iterator[Timer]:
    """Fiber, in its own Python, where it takes the time itself."""
    command = [str(FIBER_PYTHON), "-m", "benchmarks.fiber_pool", str(WORKERS)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield functools.partial(fiber_seconds, process)
        assert process.stdin is not None
        process.stdin.close()


def fiber_seconds(process: subprocess.Popen[str], naps: Naps) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps([naps.function, naps.count, naps.of_a_round]), file=process.stdin, flush=True)
    for line in process.stdout:
        if line[0].isdigit():
            return float(line)
    raise RuntimeError("Fiber ended without a figure")


def heavy_timers() -> dict[str, StartTimer]:
    """The peers that are packages of their own, as far as they are installed here."""
    found = {name: timer(start) for name, start in installed_heavy().items()}
    return {"Fiber 0.2.1": fiber, **found} if FIBER_PYTHON.exists() else found


def measure_together(starts: Mapping[str, StartTimer], repeats: int) -> Medians:
    """All of them live at once, idle but for the one whose turn it is."""
    figures: dict[str, dict[str, list[float]]] = {name: {naps.title: [] for naps in NAPS} for name in starts}
    with ExitStack() as stack:
        timers = {name: stack.enter_context(start()) for name, start in starts.items()}
        for turn in range(repeats):
            for naps in NAPS:
                for name in rotated(list(timers), turn):
                    figures[name][naps.title].append(timers[name](naps))
    return {name: {title: statistics.median(times) for title, times in of.items()} for name, of in figures.items()}


def checks_of(got: Medians) -> list[Check]:
    """Our pool against multiprocessing's, and the executor at the shortest tasks."""
    held = [(OURS, naps) for naps in NAPS] + [(EXECUTOR, naps) for naps in NAPS if naps.title.startswith("1 ms")]
    return [
        Check(
            what=f"{name}, 5 workers, 5 s of sleep in tasks of {naps.title}: time against `Pool.map(chunksize=1)`",
            figure=got[name][naps.title] / got[POOL][naps.title],
            unit="times",
            bound=naps.bound,
            sense="at most",
        )
        for name, naps in held
    ]


def overhead_figures(repeats: int, with_heavy: bool) -> tuple[list[Check], Table]:
    """The light peers take turns. The heavy ones are measured one after another: their idling is not free."""
    got = measure_together({name: timer(start) for name, start in LIGHT.items()}, repeats)
    if with_heavy:
        for name, start in heavy_timers().items():
            got |= measure_together({name: start}, max(1, repeats // 2))
    table = Table(
        title="Overhead of short tasks, 5 workers: the table of the Fiber paper",
        note="Seconds for five seconds of sleep in all, in tasks of 1 s, 100, 10 and 1 ms, all submitted at once and "
        "in rounds of 5; 1.0 would be perfect. `FiberNB Pool` is `fibernb.multiprocessing.Pool`, `FiberNB` the "
        "executor on seats; every task by itself (`chunksize=1` where there are chunks). Fiber runs on Python 3.7.",
        head=("", *(naps.title for naps in NAPS)),
        rows=[(name, *(f"{of[naps.title]:.3f}" for naps in NAPS)) for name, of in got.items()],
    )
    return checks_of(got), table
