"""Things to do later, in the driver's one thread."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Timers:
    """Actions by the time when they are due; those due at the same time keep their order."""

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def at(self, due: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (due, next(self._count), action))

    def next_due(self) -> float | None:
        return self._queue[0][0] if self._queue else None

    def pop_due(self, now: float) -> Callable[[], None] | None:
        """The next action that is due, which is the caller's to do; None when there is none."""
        return heapq.heappop(self._queue)[2] if self._queue and self._queue[0][0] <= now else None
