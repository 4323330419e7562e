"""Fiber's module, for programs written for it: ``import fibernb.multiprocessing.fiber as fiber``.

Fiber's API is that of `fibernb.multiprocessing`; here it stands under Fiber's names, with ``meta``, ``init`` and the
configuration. docs/fiber.md goes through all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from multiprocessing import active_children, current_process
from typing import Any

from fibernb.meta import meta
from fibernb.multiprocessing import Manager, Pipe, SimpleQueue, cpu_count, get_context, managers
from fibernb.multiprocessing.context import default
from fibernb.multiprocessing.fiber.config import config
from fibernb.multiprocessing.process import Process
from fibernb.multiprocessing.ring import Ring, RingNode

__all__ = [
    "Manager",
    "Pipe",
    "Pool",
    "Process",
    "Ring",
    "RingNode",
    "SimpleQueue",
    "active_children",
    "config",
    "cpu_count",
    "current_process",
    "get_context",
    "init",
    "managers",
    "meta",
    "reset",
]


def init(**kwargs: Any) -> None:
    """Read Fiber's configuration anew, with what is given here before the variables ``FIBER_*`` and ``.fiberconfig``.

    Raises `ConfigError`, a ValueError, for keys and values that Fiber does not have, and `ProcessError` for a backend
    that does not exist.
    """
    config.init(**kwargs)


def reset() -> None:
    """As `init` without anything given."""
    config.init()


def Pool(  # noqa: N802  Fiber's name
    processes: Any = None,
    initializer: Callable[..., object] | None = None,
    initargs: Iterable[Any] = (),
    maxtasksperchild: int | None = None,
    error_handling: bool = True,  # noqa: ARG001  Fiber's
) -> Any:
    """A pool. What a worker held when it died is always run again, whatever ``error_handling`` says."""
    return default.Pool(processes, initializer, initargs, maxtasksperchild)
