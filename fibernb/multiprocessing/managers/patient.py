"""Queues, locks and the like as the server holds them: a call that waits in them ends when its caller has gone.

Else a ``get`` that was interrupted would take the next item for nobody, and an ``acquire`` whose process was killed the
lock. Calls wait in slices, and look at their connection in between; who has something for them wakes them at once.
"""

from __future__ import annotations

import queue
import select
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

SLICE_S: Final = 0.5
HANG_UP: Final = getattr(select, "POLLRDHUP", 0)  # Linux; elsewhere the other side has to have closed both ways

served: Final = threading.local()  # its ``connection``: that whose calls this thread makes


class CallerGone(Exception):
    """Nobody waits for the answer of this call any more."""


def caller_has_gone() -> bool:
    """Whether the other side of the connection that this thread serves has closed it."""
    connection = getattr(served, "connection", None)
    if connection is None:
        return False
    poller = select.poll()
    poller.register(connection.fileno(), HANG_UP)
    return bool(poller.poll(0))


def slices(timeout: float | None) -> Iterator[float]:
    """Pieces of a time-out (seconds), at least one. Raises `CallerGone` between them."""
    deadline = None if timeout is None else time.monotonic() + timeout
    left = SLICE_S if timeout is None else timeout
    while True:
        yield min(SLICE_S, left)
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                return
        if caller_has_gone():
            raise CallerGone


class Queue(queue.Queue[Any]):
    """A queue of which nobody takes items who is not there to get them."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not block or (timeout is not None and timeout < 0):
            return super().get(block, timeout)
        for slice_s in slices(timeout):
            try:
                item = super().get(timeout=slice_s)
            except queue.Empty:
                continue
            if caller_has_gone():
                self._put_back(item)
                raise CallerGone
            return item
        raise queue.Empty

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if not block or (timeout is not None and timeout < 0):
            return super().put(item, block, timeout)
        for slice_s in slices(timeout):
            try:
                return super().put(item, timeout=slice_s)
            except queue.Full:
                continue
        raise queue.Full

    def _put_back(self, item: Any) -> None:
        with self.mutex:
            self.queue.appendleft(item)
            self.not_empty.notify()


class Acquirer:
    """A lock or semaphore."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        if not blocking or (timeout is not None and timeout <= 0):
            return bool(self._lock.acquire(blocking) if timeout is None else self._lock.acquire(blocking, timeout))
        if not any(self._lock.acquire(True, slice_s) for slice_s in slices(timeout)):
            return False
        if caller_has_gone():
            self._lock.release()
            raise CallerGone
        return True

    def release(self) -> None:
        self._lock.release()

    def __repr__(self) -> str:
        return repr(self._lock)


class Condition(threading.Condition):
    """A condition. Who waits for it and goes leaves its lock free."""

    def __init__(self, lock: Any = None) -> None:
        super().__init__(lock)
        self.acquire = Acquirer(self._lock).acquire  # type: ignore[attr-defined,method-assign]  # an attribute, as there

    def wait(self, timeout: float | None = None) -> bool:
        wait = super().wait
        if timeout is not None and timeout <= 0:
            return wait(timeout)
        try:
            return any(wait(slice_s) for slice_s in slices(timeout))
        except CallerGone:
            self.release()
            raise


class Event(threading.Event):
    """An event."""

    def wait(self, timeout: float | None = None) -> bool:
        wait = super().wait
        return any(wait(slice_s) for slice_s in slices(timeout))


def Lock() -> Acquirer:  # noqa: N802  the library's name
    """A `threading.Lock`."""
    return Acquirer(threading.Lock())


def RLock() -> Acquirer:  # noqa: N802  the library's name
    """A `threading.RLock`: its owner is the thread of the server that serves who has acquired it."""
    return Acquirer(threading.RLock())


def Semaphore(value: int = 1) -> Acquirer:  # noqa: N802  the library's name
    """A `threading.Semaphore`."""
    return Acquirer(threading.Semaphore(value))


def BoundedSemaphore(value: int = 1) -> Acquirer:  # noqa: N802  the library's name
    """A `threading.BoundedSemaphore`."""
    return Acquirer(threading.BoundedSemaphore(value))
