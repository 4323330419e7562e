"""Deadlines in virtual time. A timer has a key; setting it again moves it; equal times fire in the order in which
they were set.
"""

from __future__ import annotations

import heapq
from typing import TypeAlias

Key: TypeAlias = tuple[str, int]  # what is due, and for whom


class Timers:
    """A heap with lazy removal: an entry counts only while the table still names its time."""

    __slots__ = ("_heap", "_serial", "_when")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Key]] = []
        self._when: dict[Key, tuple[float, int]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._when)

    def __contains__(self, key: Key) -> bool:
        return key in self._when

    def set(self, key: Key, when: float) -> None:
        """Fire ``key`` at ``when``, and not at the time that was set before."""
        self._serial += 1
        self._when[key] = (when, self._serial)
        heapq.heappush(self._heap, (when, self._serial, key))

    def set_default(self, key: Key, when: float) -> None:
        """As `set`, unless the key is set already."""
        if key not in self._when:
            self.set(key, when)

    def cancel(self, key: Key) -> None:
        """Do not fire ``key``; harmless when it is not set."""
        self._when.pop(key, None)

    def next(self) -> float | None:
        """When the earliest timer is due."""
        heap = self._heap
        while heap and self._when.get(heap[0][2]) != heap[0][:2]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now: float) -> Key | None:
        """The earliest timer that is due, which is then unset."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            when, serial, key = heapq.heappop(heap)
            if self._when.get(key) == (when, serial):
                del self._when[key]
                return key
        return None
