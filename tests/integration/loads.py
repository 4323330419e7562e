# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Loads of tasks and actors that check their own results and leave a mark for everything that runs.

A module of its own, since clients in processes of their own run them too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import fibernb as fnb

ACTORS: Final = 200
ACTORS_AT_ONCE: Final = 20
EXTRA_CALLS: Final = 4  # more than asked for that an actor may have counted: one for each kill
LEAVES: Final = 1000
ITEMS: Final = 400
STEPS: Final = 100
SIZE: Final = 13_000  # of an array that is just large enough for the store


def leave_mark(path: str) -> None:
    """One byte more in a file: what has happened so far can be counted, and a death loses nothing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, b"x")
    os.close(descriptor)


def marks(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def chain(trace: str) -> None:
    """100 tasks, each with the result of the one before."""

    @fnb.remote(max_retries=-1)
    def step(value: int, trace: str) -> int:
        leave_mark(trace)
        time.sleep(0.005)
        return value + 1

    value: Any = 0
    for _ in range(STEPS):
        value = step.remote(value, trace)
    assert fnb.get(value, timeout=90) == STEPS


def tree(trace: str) -> None:
    """A sum of 1,000 arrays by pairs; the arrays stand in the store."""

    @fnb.remote(max_retries=-1)
    def leaf(number: int, trace: str) -> Any:
        leave_mark(trace)
        return np.full(SIZE, number, dtype=np.int64)

    @fnb.remote(max_retries=-1)
    def add(left: Any, right: Any, trace: str) -> Any:
        leave_mark(trace)
        return left + right

    level = [leaf.remote(number, trace) for number in range(LEAVES)]
    while len(level) > 1:
        odd = level[len(level) // 2 * 2 :]
        level = [add.remote(left, right, trace) for left, right in zip(level[::2], level[1::2], strict=False)] + odd
    assert fnb.get(level[0], timeout=90).tolist() == [sum(range(LEAVES))] * SIZE


class Counting:
    """Keeps its count over a restart."""

    def __init__(self) -> None:
        self.count = 0

    def increment(self, trace: str) -> int:
        leave_mark(trace)
        time.sleep(0.002)
        self.count += 1
        return self.count

    def __fibernb_checkpoint__(self) -> int:
        return self.count

    def __fibernb_restore__(self, count: int) -> None:
        self.count = count


def actors(trace: str) -> None:
    """200 actors that count to five, some at a time; a call may have run once more than it was answered."""
    counter = fnb.remote(max_restarts=-1, max_task_retries=-1)(Counting)
    for _ in range(ACTORS // ACTORS_AT_ONCE):
        some = [counter.remote() for _ in range(ACTORS_AT_ONCE)]
        counts = fnb.get([[actor.increment.remote(trace) for _ in range(5)][-1] for actor in some], timeout=90)
        assert all(5 <= count <= 5 + EXTRA_CALLS for count in counts), counts


def stream(trace: str) -> None:
    """A generator whose items come in order, none lost, none twice."""

    @fnb.remote(max_retries=-1, num_returns="streaming")
    def produce(trace: str) -> Iterator[Any]:
        for number in range(ITEMS):
            leave_mark(trace)
            time.sleep(0.002)
            yield number

    assert [fnb.get(reference, timeout=90) for reference in produce.remote(trace)] == list(range(ITEMS))


def nested(trace: str) -> None:
    """Tasks that start tasks that start tasks."""

    @fnb.remote(max_retries=-1)
    def fan_out(depth: int, trace: str) -> int:
        leave_mark(trace)
        if depth == 0:
            time.sleep(0.003)
            return 1
        return sum(fnb.get([fan_out.remote(depth - 1, trace) for _ in range(5)]))

    assert fnb.get(fan_out.remote(3, trace), timeout=90) == 125


@dataclass(frozen=True, kw_only=True)
class Load:
    run: Callable[[str], None]
    marks: int  # that it leaves when nothing dies
    more: int  # that it may leave for each kill: what runs again


LOADS: Final = {
    "chain": Load(run=chain, marks=STEPS, more=2),
    "tree": Load(run=tree, marks=2 * LEAVES - 1, more=600),
    "actors": Load(run=actors, marks=5 * ACTORS, more=10),
    "stream": Load(run=stream, marks=ITEMS, more=ITEMS),
    "nested": Load(run=nested, marks=156, more=156),
}
