"""A pool of actors that share a stream of work."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from fibernb.client.handles import ActorHandle
from fibernb.client.refs import ObjectRef
from fibernb.client.waiting import wait
from fibernb.errors import ConfigError, GetTimeout

Call: TypeAlias = Callable[[ActorHandle, Any], ObjectRef]

NONE_LEFT: Final = "no value is left: submit work first"


class ActorPool:
    """Gives each value to an actor that is free; values that find none wait for the next one.

    Parameters
    ----------
    actors : handles of the actors, of one kind.
    """

    def __init__(self, actors: Iterable[ActorHandle]) -> None:
        self._idle = deque(actors)
        self._waiting: deque[tuple[Call, Any, int]] = deque()
        self._running: dict[int, tuple[ObjectRef, ActorHandle]] = {}  # by the number of its submission
        self._next_submission = 0
        self._next_in_order = 0
        self._taken: set[int] = set()  # out of order, ahead of the next one in order

    def map(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """The values of ``fn(actor, value)``, which gives a reference, in the order of ``values``.

        What was submitted before and not fetched is dropped.
        """
        return self._all(fn, values, self.get_next)

    def map_unordered(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """As `map`, in the order in which they become ready."""
        return self._all(fn, values, self.get_next_unordered)

    def submit(self, fn: Call, value: Any) -> None:
        """Start ``fn(actor, value)`` on an actor that is free, or as soon as one is."""
        number = self._next_submission
        self._next_submission += 1
        if self._idle:
            self._start(fn, value, number, self._idle.popleft())
        else:
            self._waiting.append((fn, value, number))

    def has_next(self) -> bool:
        """Whether a value is to come, or there."""
        return bool(self._running or self._waiting)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """The next value in the order of submission; waits for it.

        Parameters
        ----------
        timeout : seconds; `GetTimeout` (a TimeoutError) when they are over, and the value can be asked for again.
        ignore_if_timedout : the value that was not ready in time is dropped, so that the next call is for another.

        Raises `StopIteration` when no value is left.
        """
        if not self.has_next():
            raise StopIteration(NONE_LEFT)
        return self._take(self._next_in_order, timeout, ignore_if_timedout)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """As `get_next`, whichever value is ready first."""
        if not self.has_next():
            raise StopIteration(NONE_LEFT)
        if not self._running:
            return self._take(self._next_in_order, timeout, ignore_if_timedout)
        numbers = {ref: number for number, (ref, _) in self._running.items()}
        ready, _ = wait(list(numbers), num_returns=1, timeout=timeout)
        first = numbers[ready[0]] if ready else min(self._running)
        return self._take(first, 0.0 if not ready else None, ignore_if_timedout)

    def has_free(self) -> bool:
        """Whether an actor has nothing to do."""
        return bool(self._idle)

    def pop_idle(self) -> ActorHandle | None:
        """Take an actor that has nothing to do out of the pool; None when all are busy."""
        return self._idle.popleft() if self._idle else None

    def push(self, actor: ActorHandle) -> None:
        """Put another actor into the pool."""
        busy = [handle for _, handle in self._running.values()]
        if actor in self._idle or actor in busy:
            raise ConfigError(f"{actor!r} is in the pool already")
        self._free(actor)

    def _all(self, fn: Call, values: Iterable[Any], take: Callable[[], Any]) -> Iterator[Any]:
        self._drop_all()
        for value in values:
            self.submit(fn, value)

        def fetch() -> Iterator[Any]:
            while self.has_next():
                yield take()

        return fetch()

    def _drop_all(self) -> None:
        self._waiting.clear()
        for number in list(self._running):
            with contextlib.suppress(Exception):  # whatever it came to, nobody has asked for it
                self._take(number, None, False)
        self._next_in_order = self._next_submission
        self._taken.clear()

    def _start(self, fn: Call, value: Any, number: int, actor: ActorHandle) -> None:
        try:
            self._running[number] = (fn(actor, value), actor)
        except BaseException:
            self._free(actor)
            raise

    def _take(self, number: int, timeout: float | None, drops: bool) -> Any:
        """The value of one submission; its actor is free from then on."""
        if number not in self._running:
            raise ConfigError("the pool has no actors: put some in with push(actor)")
        ref, actor = self._running[number]
        ready, _ = wait([ref], timeout=timeout)
        if not ready and not drops:
            raise GetTimeout(f"the next value was not ready within {timeout or 0:g} s; ask again for it")
        del self._running[number]
        self._taken.add(number)
        while self._next_in_order in self._taken:
            self._taken.discard(self._next_in_order)
            self._next_in_order += 1
        self._free(actor)
        if not ready:
            raise GetTimeout(f"the next value was not ready within {timeout or 0:g} s and has been dropped")
        return ref.result()

    def _free(self, actor: ActorHandle) -> None:
        self._idle.append(actor)
        if self._waiting:
            fn, value, number = self._waiting.popleft()
            self._start(fn, value, number, self._idle.popleft())
