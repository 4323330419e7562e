"""How many tasks a second, and how long a call takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TypeAlias

from benchmarks.peers import LIGHT, Function, Peer, Start, installed_heavy
from benchmarks.report import Check, Table, number
from benchmarks.rounds import expect
from benchmarks.work import nothing

OURS = "FiberNB"
POOL = "multiprocessing.Pool"

Measurement: TypeAlias = Callable[[Peer], float]
Figures: TypeAlias = dict[str, list[float]]  # by measurement, one for each peer


def seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def map_rate(count: int) -> Measurement:
    """No-op tasks a second in one map."""
    return lambda peer: count / seconds(lambda: expect(peer.map(nothing, count), count))


def submit_rate(count: int) -> Measurement:
    """No-op tasks a second, submitted one by one."""
    return lambda peer: count / seconds(lambda: expect(peer.submit_each(nothing, count), count))


def call_time(count: int) -> Measurement:
    """Median microseconds of one synchronous call."""
    return lambda peer: 1e6 * statistics.median(seconds(lambda: peer.call(nothing)) for _ in range(count))


def warm_up(peer: Peer, function: Function) -> None:
    peer.map(function, 50)
    peer.submit_each(function, 50)
    for _ in range(20):
        peer.call(function)


def measure_together(
    starts: Mapping[str, Start], workers: int, measurements: Mapping[str, Measurement], repeats: int
) -> dict[str, Figures]:
    """Figures by peer; all peers live at once, idle but for the one whose turn it is."""
    figures: dict[str, Figures] = {name: {key: [] for key in measurements} for name in starts}
    with ExitStack() as stack:
        peers = {name: stack.enter_context(start(workers)) for name, start in starts.items()}
        for peer in peers.values():
            warm_up(peer, nothing)
        for turn in range(repeats):
            for key, measurement in measurements.items():
                for name in rotated(list(peers), turn):
                    figures[name][key].append(measurement(peers[name]))
    return figures


def rotated(names: list[str], turn: int) -> Iterator[str]:
    """Another peer goes first in each turn."""
    shift = turn % len(names)
    yield from names[shift:] + names[:shift]


def medians(figures: dict[str, Figures]) -> dict[str, dict[str, float]]:
    return {name: {key: statistics.median(values) for key, values in of.items()} for name, of in figures.items()}


def measure(
    workers: int,
    light: Mapping[str, Measurement],
    heavy: Mapping[str, Measurement],
    repeats: int,
    with_heavy: bool,
) -> dict[str, dict[str, float]]:
    """Medians by peer and measurement. The heavy peers are measured one after another: their idling is not free."""
    figures = measure_together(LIGHT, workers, light, repeats)
    if with_heavy:
        for name, start in installed_heavy().items():
            figures |= measure_together({name: start}, workers, heavy, max(1, repeats // 2))
    return medians(figures)


def no_op_figures(repeats: int, with_heavy: bool) -> tuple[list[Check], Table]:
    light = {"map": map_rate(50_000), "submit": submit_rate(20_000), "call": call_time(1_000)}
    heavy = {"map": map_rate(2_000), "submit": submit_rate(1_000), "call": call_time(100)}
    got = measure(2, light, heavy, repeats, with_heavy)
    ours, pool = got[OURS], got[POOL]
    checks = [
        Check(
            what="no-op map, 2 engines, tasks a second against `Pool.map(chunksize=1)`",
            figure=ours["map"] / pool["map"],
            unit="times",
            bound=2,
            sense="at least",
        ),
        Check(
            what="separate submissions, 2 engines, tasks a second against `Pool.apply_async`",
            figure=ours["submit"] / pool["submit"],
            unit="times",
            bound=1.5,
            sense="at least",
        ),
        Check(
            what="synchronous call, median, against `Pool.apply`",
            figure=ours["call"] / pool["call"],
            unit="times",
            bound=2,
            sense="at most",
        ),
    ]
    rows = [
        (
            name,
            number(of["map"]),
            number(of["submit"]),
            number(of["call"]),
            number(ours["map"] / of["map"]),
            number(ours["submit"] / of["submit"]),
            number(of["call"] / ours["call"]),
        )
        for name, of in got.items()
    ]
    table = Table(
        title="Tasks that do nothing, 2 workers; the last three columns say how many times faster FiberNB is",
        note="Medians. A map is the peer's own bulk call with one task for each item, as in `Pool.map(chunksize=1)`.",
        head=("", "map, tasks/s", "submit each, tasks/s", "one call, µs", "map", "submit", "call"),
        rows=rows,
        in_readme=True,
    )
    return checks, table
