"""Queues and pipes between two processes, ours beside the library's: how fast, and how soon the answer comes."""

from __future__ import annotations

import multiprocessing as library
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np

import fibernb as fnb
import fibernb.multiprocessing as ours
from benchmarks.report import Check, Table, number

SMALL: Final = b"x" * 100
LARGE_BYTES: Final = 1_000_000
MODULES: Final[dict[str, ModuleType]] = {"FiberNB": ours, "multiprocessing": library}

Figure: TypeAlias = float
Measure: TypeAlias = Callable[[ModuleType], Figure]


@dataclass(frozen=True, kw_only=True)
class Case:
    title: str
    unit: str
    more_is_better: bool
    measure: Measure


# ---- what the other process does --------------------------------------------------------------------------------


def answer(receive: Callable[[], Any], send: Callable[[Any], object]) -> None:
    """Everything comes back, until None does."""
    while (value := receive()) is not None:
        send(value)
    send(None)


def send_all(send: Callable[[Any], object], value: Any, count: int) -> None:
    for _ in range(count):
        send(value)


def answer_pipe(connection: Any) -> None:
    answer(connection.recv, connection.send)


def answer_queue(questions: Any, answers: Any) -> None:
    answer(questions.get, answers.put)


def fill_pipe(connection: Any, value: Any, count: int) -> None:
    connection.recv()
    send_all(connection.send, value, count)


def fill_queue(queue: Any, started: Any, value: Any, count: int) -> None:
    started.recv()
    send_all(queue.put, value, count)


# ---- what is measured -------------------------------------------------------------------------------------------


@contextmanager
def running(module: ModuleType, target: Callable[..., None], *arguments: Any) -> Iterator[None]:
    process = module.Process(target=target, args=arguments)
    process.start()
    yield
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the other process ended with {process.exitcode}")


def trip_us(send: Callable[[Any], object], receive: Callable[[], Any], count: int) -> Figure:
    """Median microseconds there and back; ends the other process."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        send(SMALL)
        receive()
        times.append(time.perf_counter() - begin)
    send(None)
    receive()
    return 1e6 * statistics.median(times)


def taken_s(receive: Callable[[], Any], count: int) -> float:
    """Seconds from the first thing that comes to the last."""
    receive()
    begin = time.perf_counter()
    for _ in range(count - 1):
        receive()
    return time.perf_counter() - begin


def pipe_trip(count: int) -> Measure:
    def measure(module: ModuleType) -> Figure:
        here, there = module.Pipe()
        with running(module, answer_pipe, there):
            return trip_us(here.send, here.recv, count)

    return measure


def queue_trip(kind: str, count: int) -> Measure:
    def measure(module: ModuleType) -> Figure:
        questions, answers = getattr(module, kind)(), getattr(module, kind)()
        with running(module, answer_queue, questions, answers):
            return trip_us(questions.put, answers.get, count)

    return measure


def pipe_stream(value: Any, count: int, unit_of_each: float = 1) -> Measure:
    def measure(module: ModuleType) -> Figure:
        here, there = module.Pipe()
        with running(module, fill_pipe, there, value, count):
            here.send("begin")
            return (count - 1) * unit_of_each / taken_s(here.recv, count)

    return measure


def queue_stream(kind: str, value: Any, count: int, unit_of_each: float = 1) -> Measure:
    def measure(module: ModuleType) -> Figure:
        queue = getattr(module, kind)()
        here, there = module.Pipe()
        with running(module, fill_queue, queue, there, value, count):
            here.send("begin")
            return (count - 1) * unit_of_each / taken_s(queue.get, count)

    return measure


def cases(scale: float) -> list[Case]:
    """``scale``: 1 for figures to be kept, less for a quick look."""
    trips, small, large = int(2_000 * scale), int(50_000 * scale), int(500 * scale)
    array = np.ones(LARGE_BYTES // 8)
    megabytes = LARGE_BYTES / 1e6
    found = [
        Case(title="Pipe, 100 bytes there and back", unit="µs", more_is_better=False, measure=pipe_trip(trips)),
        Case(title="Pipe, 100 bytes", unit="messages/s", more_is_better=True, measure=pipe_stream(SMALL, small)),
        Case(title="Pipe, arrays", unit="MB/s", more_is_better=True, measure=pipe_stream(array, large, megabytes)),
    ]
    for kind in ("Queue", "SimpleQueue"):
        found += [
            Case(
                title=f"{kind}, 100 bytes there and back",
                unit="µs",
                more_is_better=False,
                measure=queue_trip(kind, trips),
            ),
            Case(
                title=f"{kind}, 100 bytes",
                unit="items/s",
                more_is_better=True,
                measure=queue_stream(kind, SMALL, small),
            ),
            Case(
                title=f"{kind}, arrays",
                unit="MB/s",
                more_is_better=True,
                measure=queue_stream(kind, array, large, megabytes),
            ),
        ]
    return found


def medians(case: Case, repeats: int) -> dict[str, Figure]:
    """By module; they take turns."""
    figures: dict[str, list[Figure]] = {name: [] for name in MODULES}
    for _ in range(repeats):
        for name, module in MODULES.items():
            figures[name].append(case.measure(module))
    return {name: statistics.median(values) for name, values in figures.items()}


def row(case: Case, got: dict[str, Figure]) -> tuple[str, ...]:
    here, there = got["FiberNB"], got["multiprocessing"]
    better = here / there if case.more_is_better else there / here
    return case.title, case.unit, number(here), number(there), f"{number(better)} times"


def talking_figures(repeats: int, scale: float = 1) -> tuple[list[Check], Table]:
    """No figure is held to anything: they stand beside the library's."""
    rows = [row(case, medians(case, repeats)) for case in cases(scale)]
    fnb.shutdown()
    table = Table(
        title="Queues and pipes between two processes",
        note="The same program with either module. Arrays are of 1 MB. The last column says how many times better "
        "FiberNB is.",
        head=("", "", "FiberNB", "multiprocessing", ""),
        rows=rows,
    )
    return [], table
