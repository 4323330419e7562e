"""The contexts of ``multiprocessing``: what its module-level functions are methods of.

There is one way to start a process here. Programs may ask for the library's start methods by name, and get a context
that is called so.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from multiprocessing import context as library
from typing import Any, ClassVar

from fibernb import config as configuration
from fibernb.client import current
from fibernb.multiprocessing import start_method
from fibernb.multiprocessing.process import (
    START_METHODS,
    ClusterProcess,
    ForkProcess,
    ForkServerProcess,
    Process,
    SpawnProcess,
)


def _part(module: str, name: str) -> Callable[..., Any]:
    """Something of a module of this package, which is loaded now: a process that needs little loads little."""
    found: Callable[..., Any] = getattr(importlib.import_module(f"fibernb.multiprocessing.{module}"), name)
    return found


class ClusterContext(library.BaseContext):
    """What the library's contexts have, on the cluster."""

    _name = ""
    Process: ClassVar[type[ClusterProcess]]

    def cpu_count(self) -> int:
        """How many seats the cluster has or, before there is one, will have."""
        session = current.session
        if session is not None and session.over is None and session.seats is not None:
            return max(1, session.seats.seats)
        return configuration.load().workers or _cores()

    # ---- objects that processes share ------------------------------------------------------------------------

    def Manager(self) -> Any:  # noqa: N802
        manager = _part("managers", "SyncManager")(ctx=self.get_context())
        manager.start()
        return manager

    def Pipe(self, duplex: bool = True) -> Any:  # noqa: N802
        return _part("connection", "Pipe")(duplex)

    def Lock(self) -> Any:  # noqa: N802
        return self._shared("synchronize", "Lock")

    def RLock(self) -> Any:  # noqa: N802
        return self._shared("synchronize", "RLock")

    def Condition(self, lock: Any = None) -> Any:  # noqa: N802
        return self._shared("synchronize", "Condition", lock)

    def Semaphore(self, value: int = 1) -> Any:  # noqa: N802
        return self._shared("synchronize", "Semaphore", value)

    def BoundedSemaphore(self, value: int = 1) -> Any:  # noqa: N802
        return self._shared("synchronize", "BoundedSemaphore", value)

    def Event(self) -> Any:  # noqa: N802
        return self._shared("synchronize", "Event")

    def Barrier(self, parties: int, action: Any = None, timeout: float | None = None) -> Any:  # noqa: N802
        return self._shared("synchronize", "Barrier", parties, action, timeout)

    def Queue(self, maxsize: int = 0) -> Any:  # noqa: N802
        return self._shared("queues", "Queue", maxsize)

    def JoinableQueue(self, maxsize: int = 0) -> Any:  # noqa: N802
        return self._shared("queues", "JoinableQueue", maxsize)

    def SimpleQueue(self) -> Any:  # noqa: N802
        return self._shared("queues", "SimpleQueue")

    def RawValue(self, typecode_or_type: Any, *args: Any) -> Any:  # noqa: N802
        return _part("sharedctypes", "RawValue")(typecode_or_type, *args)

    def RawArray(self, typecode_or_type: Any, size_or_initializer: Any) -> Any:  # noqa: N802
        return _part("sharedctypes", "RawArray")(typecode_or_type, size_or_initializer)

    def Value(self, typecode_or_type: Any, *args: Any, lock: Any = True) -> Any:  # noqa: N802
        return self._shared("sharedctypes", "Value", typecode_or_type, *args, lock=lock)

    def Array(self, typecode_or_type: Any, size_or_initializer: Any, *, lock: Any = True) -> Any:  # noqa: N802
        return self._shared("sharedctypes", "Array", typecode_or_type, size_or_initializer, lock=lock)

    def _shared(self, module: str, name: str, *args: Any, **kwargs: Any) -> Any:
        return _part(module, name)(*args, ctx=self.get_context(), **kwargs)

    def Pool(  # noqa: N802
        self,
        processes: Any = None,
        initializer: Any = None,
        initargs: Any = (),
        maxtasksperchild: int | None = None,
        **more: Any,
    ) -> Any:
        """As the library's; ``more`` is what `fibernb.multiprocessing.pool.Pool` takes beyond that."""
        make = _part("pool", "Pool")
        return make(processes, initializer, initargs, maxtasksperchild, context=self.get_context(), **more)

    # ---- contexts ----------------------------------------------------------------------------------------------

    def get_context(self, method: str | None = None) -> ClusterContext:  # type: ignore[override]
        """The context of that name; None: this one. Raises `ValueError` when there is none."""
        if method is None:
            return self
        try:
            return CONTEXTS[method]
        except KeyError:
            raise ValueError(f"cannot find context for {method!r}") from None

    def get_start_method(self, allow_none: bool = False) -> str:  # noqa: ARG002  as in a default context
        return self._name


class SpawnContext(ClusterContext):
    _name = "spawn"
    Process = SpawnProcess


class ForkContext(ClusterContext):
    _name = "fork"
    Process = ForkProcess


class ForkServerContext(ClusterContext):
    _name = "forkserver"
    Process = ForkServerProcess


CONTEXTS: dict[str, ClusterContext] = {
    "spawn": SpawnContext(),
    "fork": ForkContext(),
    "forkserver": ForkServerContext(),
}


class DefaultContext(library.DefaultContext, ClusterContext):
    """The context behind the module's own functions."""

    Process = Process  # type: ignore[assignment]  # the library declares its own

    @property
    def _actual_context(self) -> ClusterContext | None:
        return None if start_method.chosen is None else CONTEXTS[start_method.chosen]

    @_actual_context.setter
    def _actual_context(self, context: ClusterContext | None) -> None:
        start_method.chosen = None if context is None else context.get_start_method()

    def get_all_start_methods(self) -> list[str]:
        return list(START_METHODS)


default = DefaultContext(CONTEXTS["spawn"])
get_context = default.get_context


def __getattr__(name: str) -> Any:
    """Everything else of this module is the library's."""
    return getattr(library, name)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
