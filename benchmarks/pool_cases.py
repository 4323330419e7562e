"""The same cases by means of `multiprocessing` alone, where it has something of the kind.

A task is a call on a pool. An actor is an object in a manager's process, called over its proxy, or for many calls at
once a pool of one process.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.managers import BaseManager
from multiprocessing.pool import ThreadPool
from typing import Any, Final

from benchmarks.cases import CALLS, WORKERS, Action


def small_value() -> bytes:
    return b"ok"


class Server:
    """The actor."""

    def small_value(self) -> bytes:
        return b"ok"


class Manager(BaseManager):
    """Has the actor in a process of its own."""


Manager.register("Server", Server)


@contextmanager
def tasks_one_by_one() -> Iterator[Action]:
    with multiprocessing.Pool(WORKERS) as pool:
        yield lambda: pool.apply(small_value)


def tasks_at_once(workers: int) -> Callable[[], AbstractContextManager[Action]]:
    @contextmanager
    def prepare() -> Iterator[Action]:
        with multiprocessing.Pool(workers) as pool:
            yield lambda: [pending.get() for pending in [pool.apply_async(small_value) for _ in range(CALLS)]]

    return prepare


@contextmanager
def calls_one_by_one() -> Iterator[Action]:
    with Manager() as manager:
        server: Any = manager.Server()  # type: ignore[attr-defined]  # registered above
        yield server.small_value


@contextmanager
def calls_on_threads() -> Iterator[Action]:
    """A manager serves each thread of a caller by a thread of its own."""
    with Manager() as manager, ThreadPool(16) as threads:
        server: Any = manager.Server()  # type: ignore[attr-defined]
        yield lambda: threads.map(lambda _: server.small_value(), range(CALLS))


PREPARATIONS: Final[dict[str, Callable[[], AbstractContextManager[Action]]]] = {
    "tasks-sync": tasks_one_by_one,
    "tasks-async": tasks_at_once(WORKERS),
    "tasks-batch": tasks_at_once(WORKERS),
    "actor-sync": calls_one_by_one,
    "actor-async": tasks_at_once(1),
    "actor-concurrent": calls_on_threads,
}
