"""What a pool's methods return: the library's results, told of runs of items at a time."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import TimeoutError as NotInTime
from multiprocessing.pool import ApplyResult, IMapIterator, IMapUnorderedIterator, MapResult
from typing import Any, Protocol, TypeAlias

from fibernb.multiprocessing.pooling.reading import Window

Callback: TypeAlias = Callable[[Any], object]


class Result(Protocol):
    """What the owner tells of a job's items; each once, in any order."""

    _job: int

    def settle(self, start: int, values: Sequence[Any]) -> None:
        """The values of the items from ``start`` on."""

    def fail(self, index: int, error: BaseException) -> None:
        """The error of one item."""

    def refuse(self, error: BaseException) -> None:
        """Nothing of it can be run."""

    def give_up(self, error: BaseException | None) -> None:
        """There will be no more, for no fault of the job: the error of what has no value; None: nobody waits for it."""


class CallResult(ApplyResult[Any]):
    """Of one call."""

    _job: int
    _callback: Callback | None
    _error_callback: Callback | None
    _set: Callable[[int, tuple[bool, Any]], None]

    def __init__(self, pool: Any, callback: Callback | None, error_callback: Callback | None) -> None:
        super().__init__(pool, guarded(callback), guarded(error_callback))

    def settle(self, start: int, values: Sequence[Any]) -> None:
        self._set(start, (True, values[0]))

    def fail(self, index: int, error: BaseException) -> None:
        self._set(index, (False, error))

    def refuse(self, error: BaseException) -> None:
        self.fail(0, error)

    def give_up(self, error: BaseException | None) -> None:
        self._callback = self._error_callback = None
        self.fail(0, error or KeyboardInterrupt())


class ListResult(MapResult[Any]):
    """Of a map: a list.

    Parameters
    ----------
    length : how many values there will be.
    chunk : how many values one item of the job gives, when the user has chosen the size of chunks; None: one.
    """

    _job: int
    _pool: Any
    _cache: dict[int, Any]
    _callback: Callback | None
    _error_callback: Callback | None
    _event: threading.Event
    _success: bool
    _value: Any
    _chunksize: int
    _number_left: int

    def __init__(
        self, pool: Any, length: int, chunk: int | None, callback: Callback | None, error_callback: Callback | None
    ) -> None:
        self._lock = threading.Lock()
        self._flat = chunk is None
        self._error: BaseException | None = None
        library: Any = super()
        size = 0 if not length else 1 if chunk is None else chunk
        library.__init__(pool, size, length, guarded(callback), guarded(error_callback))

    def settle(self, start: int, values: Sequence[Any]) -> None:
        if self._flat:
            self._value[start : start + len(values)] = values
        else:
            for number, value in enumerate(values, start):
                self._value[number * self._chunksize : (number + 1) * self._chunksize] = value
        self._count_down(len(values))

    def fail(self, index: int, error: BaseException) -> None:  # noqa: ARG002  the first error is told, wherever
        with self._lock:
            self._error = self._error or error
        self._count_down(1)

    def refuse(self, error: BaseException) -> None:
        with self._lock:
            self._error = error
        self._count_down(None)

    def give_up(self, error: BaseException | None) -> None:
        self._callback = self._error_callback = None
        self.refuse(error or KeyboardInterrupt())

    def _count_down(self, items: int | None) -> None:
        """So many more have been told; None: all."""
        with self._lock:
            self._number_left -= self._number_left if items is None else items
            if self._number_left:
                return
        if self._error is not None:
            self._success, self._value = False, self._error
        callback = self._callback if self._success else self._error_callback
        if callback:
            callback(self._value)
        del self._cache[self._job]
        self._event.set()
        self._pool = None


class LazyResult(IMapIterator):  # type: ignore[type-arg]  # cannot be subscripted when it runs
    """Of ``imap``: an iterator that is never further behind than its window."""

    _job: int
    _pool: Any
    _cache: dict[int, Any]
    _cond: threading.Condition
    _items: Any
    _index: int
    _length: int | None
    _set: Callable[[int, tuple[bool, Any]], None]
    _set_length: Callable[[int], None]

    def __init__(self, pool: Any, window: Window) -> None:
        super().__init__(pool)
        self.window = window
        self.on_room: Callable[[], object] = _nothing  # called when the window has moved

    def next(self, timeout: float | None = None) -> Any:
        pool = self._pool
        try:
            value = super().next(timeout)
        except (StopIteration, NotInTime):
            raise
        except KeyboardInterrupt:
            if pool is not None:
                pool.abandon(self)
            raise
        except BaseException:
            self._consume()
            raise
        self._consume()
        return value

    __next__ = next  # noqa: A003  this class's

    def settle(self, start: int, values: Sequence[Any]) -> None:
        for index, value in enumerate(values, start):
            self._set(index, (True, value))

    def fail(self, index: int, error: BaseException) -> None:
        if not self.window.is_over:
            self._set(index, (False, error))

    def end(self, length: int) -> None:
        """There are so many items."""
        if not self.window.is_over:
            self._set_length(length)

    def refuse(self, error: BaseException) -> None:
        self.give_up(error)

    def give_up(self, error: BaseException | None) -> None:
        self.window.finish()
        with self._cond:
            if error is not None:
                self._items.append((False, error))
                self._index += 1
            self._length = self._index
            self._pool = None
            self._cond.notify()
        if self._job in self._cache:
            del self._cache[self._job]

    def _consume(self) -> None:
        if self.window.consume():
            self.on_room()


class UnorderedResult(LazyResult):
    """Of ``imap_unordered``."""

    _set = IMapUnorderedIterator._set  # type: ignore[attr-defined]


def guarded(callback: Callback | None) -> Callback | None:
    """The callback, but for its errors: they are printed, and the pool goes on."""
    if callback is None:
        return None

    def call(value: Any) -> None:
        try:
            callback(value)
        except Exception:  # noqa: BLE001  whatever a user's callback raises
            traceback.print_exc()

    return call


def _nothing() -> None:
    """Nobody waits for room."""
