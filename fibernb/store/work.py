"""Carries out the orders of the catalog that take time, each kind in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from fibernb.store.allocator import Extent
from fibernb.store.files import Arena, SpillFile
from fibernb.store.orders import BringBack, Grow, Punch, Shrink, SpillOut

Memory: TypeAlias = Grow | Shrink
Move: TypeAlias = SpillOut | BringBack | Punch

NO_SPILL: Final = "there is no spill file"


class Ended(NamedTuple):
    """An order, and what the problem was, if there was one."""

    order: Memory | Move
    problem: str


class Work:
    """Two threads: one sees to the arena's memory, one moves blocks.

    Parameters
    ----------
    wake : called when something has ended.
    """

    def __init__(self, arena: Arena, spill: SpillFile | None, wake: Callable[[], object]) -> None:
        self._arena = arena
        self._spill = spill
        self._wake = wake
        self._memory: queue.SimpleQueue[Memory | Move] = queue.SimpleQueue()
        self._moves: queue.SimpleQueue[Memory | Move] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        for name, orders in (("fibernb-memory", self._memory), ("fibernb-moves", self._moves)):
            threading.Thread(target=self._serve, args=(orders,), name=name, daemon=True).start()

    def begin(self, order: Memory | Move) -> None:
        (self._memory if isinstance(order, Memory) else self._moves).put(order)

    def ended(self) -> list[Ended]:
        """What has ended since the last time."""
        found = []
        while not self._ended.empty():
            found.append(self._ended.get())
        return found

    def _serve(self, orders: queue.SimpleQueue[Memory | Move]) -> None:
        while True:
            order = orders.get()
            self._ended.put(Ended(order, self._carry_out(order)))
            self._wake()

    def _carry_out(self, order: Memory | Move) -> str:
        if isinstance(order, Grow):
            return self._arena.grow(order.size_bytes, order.ahead)
        if isinstance(order, Shrink):
            self._arena.shrink(order.size_bytes)
            return ""
        return self._move(order, self._spill) if self._spill is not None else NO_SPILL

    def _move(self, order: Move, spill: SpillFile) -> str:
        if isinstance(order, SpillOut):
            return spill.write(self._arena.view(order.source), order.target)
        if isinstance(order, BringBack):
            return spill.read(order.source.offset, self._arena.view(Extent(order.target, order.source.size_bytes)))
        spill.punch(order.extent)
        return ""
