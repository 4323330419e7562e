"""Locks, semaphores, conditions, events and barriers between any two processes of a cluster.

They are the standard library's, and may be sent wherever a value may go. A lock whose holder has died is given back by
the node; the next one to take it gets a `RuntimeWarning` that names the dead.
"""

from __future__ import annotations

import struct
import weakref
from _multiprocessing import SemLock as _Semaphore  # type: ignore[import-not-found]  # it has no types
from collections.abc import Callable
from multiprocessing import synchronize, util
from multiprocessing.synchronize import (  # type: ignore[attr-defined]  # not in its stub
    RECURSIVE_MUTEX,
    SEM_VALUE_MAX,
    SEMAPHORE,
)
from typing import Any, Final, TypeAlias

from fibernb.multiprocessing.heap import BufferWrapper
from fibernb.multiprocessing.naming import Name, adopt, new_name
from fibernb.multiprocessing.ownership import Ownership
from fibernb.multiprocessing.places import Place
from fibernb.multiprocessing.sleepers import Sleepers
from fibernb.store.lock_page import open_page
from fibernb.store.names import semaphore_file

__all__ = ["Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"]

ATTEMPTS: Final = 100  # to find a name that is free
PATIENCE_S: Final = 1.0  # with those that were woken up, until it is looked whether they live

COUNTERS_BYTES: Final = 2 * struct.calcsize("i")  # of a barrier

State: TypeAlias = tuple[Place, int, int]  # kind and maximum at the end


class SemLock(synchronize.SemLock):
    """What locks and semaphores have in common: a semaphore of the system, with a name, that travels by its name."""

    _semlock: Any
    acquire: Callable[..., bool]
    release: Callable[[], None]
    _make_methods: Callable[[], None]

    def __init__(self, kind: int, value: int, maxvalue: int, *, ctx: Any = None) -> None:  # noqa: ARG002
        self._begin(*_created(kind, value, maxvalue))

    def _begin(self, semaphore: Any, name: Name) -> None:
        self._semlock = semaphore
        self._name = name
        weakref.finalize(self, name.drop)
        util.register_after_fork(self, _forget_count)
        self._make_methods()

    @property
    def name(self) -> str:
        """What this process calls it."""
        return self._name.text

    def __getstate__(self) -> State:
        return self._name.place(), self._semlock.kind, self._semlock.maxvalue

    def __setstate__(self, state: State) -> None:
        place, kind, maxvalue = state
        name = adopt(place)
        self._begin(_Semaphore._rebuild(0, kind, maxvalue, name.text), name)


def _created(kind: int, value: int, maxvalue: int) -> tuple[Any, Name]:
    for _ in range(ATTEMPTS):
        name = new_name()
        try:
            return _Semaphore(kind, value, maxvalue, name.text, False), name
        except FileExistsError:
            continue
    raise FileExistsError(f"no name for a semaphore was free in {ATTEMPTS} attempts: try again")


def _forget_count(lock: SemLock) -> None:
    """In a child that was forked by the standard library: its parent holds the lock, and it does not."""
    lock._semlock._after_fork()


class Semaphore(SemLock, synchronize.Semaphore):
    def __init__(self, value: int = 1, *, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__(SEMAPHORE, value, SEM_VALUE_MAX)


class BoundedSemaphore(Semaphore, synchronize.BoundedSemaphore):
    def __init__(self, value: int = 1, *, ctx: Any = None) -> None:  # noqa: ARG002
        SemLock.__init__(self, SEMAPHORE, value, value)


class OwnedLock(SemLock):
    """A lock that tells others who holds it, where the system allows that."""

    def _make_methods(self) -> None:
        page = open_page(semaphore_file(self._name.text))
        owned = self._semlock if page is None else Ownership(self._semlock, page)
        self.acquire, self.release = owned.acquire, owned.release

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Lock(OwnedLock, synchronize.Lock):
    def __init__(self, *, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__(SEMAPHORE, 1, 1)


class RLock(OwnedLock, synchronize.RLock):
    def __init__(self, *, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__(RECURSIVE_MUTEX, 1, 1)


class Woken(Semaphore):
    """Counts who has woken up in a condition, and said so. The dead are counted as well."""

    sleepers: Sleepers

    def _make_methods(self) -> None:
        self._patience_s = PATIENCE_S

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        if not block or timeout is not None:
            taken: bool = self._semlock.acquire(block, timeout)
            return taken
        while not self._semlock.acquire(True, self._patience_s):
            buried = self.sleepers.bury()
            self._patience_s = 0.0 if buried else PATIENCE_S  # where one has died, there may be more
            if buried:
                break
        return True

    def release(self) -> None:
        self._semlock.release()
        self.sleepers.wake()


class Condition(synchronize.Condition):
    _lock: Any
    _sleeping_count: Semaphore
    _woken_count: Woken
    _wait_semaphore: Semaphore

    def __init__(self, lock: Any = None, *, ctx: Any = None) -> None:  # noqa: ARG002
        self.__setstate__((lock or RLock(), Semaphore(0), Woken(0), Semaphore(0)))

    def __getstate__(self) -> tuple[Any, ...]:
        return self._lock, self._sleeping_count, self._woken_count, self._wait_semaphore

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        set_state: Callable[[tuple[Any, ...]], None] = super().__setstate__  # type: ignore[misc]  # not in its stub
        set_state(state)
        self._woken_count.sleepers = Sleepers(self._wait_semaphore.name)

    def wait(self, timeout: float | None = None) -> bool:
        if not self._lock._semlock._is_mine():
            return super().wait(timeout)  # which raises
        self._woken_count.sleepers.enter()
        try:
            return super().wait(timeout)
        finally:
            self._woken_count.sleepers.leave()


class Event(synchronize.Event):
    def __init__(self, *, ctx: Any = None) -> None:  # noqa: ARG002
        self._cond = Condition(Lock())
        self._flag = Semaphore(0)


class Barrier(synchronize.Barrier):
    _state: int
    _count: int
    __setstate__: Callable[[tuple[Any, ...]], None]

    def __init__(
        self,
        parties: int,
        action: Callable[[], object] | None = None,
        timeout: float | None = None,
        *,
        ctx: Any = None,  # noqa: ARG002
    ) -> None:
        self.__setstate__((parties, action, timeout, Condition(), BufferWrapper(COUNTERS_BYTES)))
        self._state = 0
        self._count = 0
