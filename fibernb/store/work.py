"""Carries out the orders of the catalog that take time, each kind in a thread of its own.

Memory that nobody waits for is provided by a thread that runs only where a core has nothing else to do: so a store that
has just begun is in nobody's way. It is never waited for by those who need memory.
"""

from __future__ import annotations

import contextlib
import os
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
    """Three threads: two see to the arena's memory, that which is needed and that which may be, and one moves blocks.

    Parameters
    ----------
    wake : called when something has ended.
    """

    def __init__(self, arena: Arena, spill: SpillFile | None, wake: Callable[[], object]) -> None:
        self._arena = arena
        self._spill = spill
        self._wake = wake
        self._memory: queue.SimpleQueue[Memory | Move] = queue.SimpleQueue()
        self._ahead: queue.SimpleQueue[Memory | Move] = queue.SimpleQueue()
        self._moves: queue.SimpleQueue[Memory | Move] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        for name, serve, orders in (
            ("fibernb-memory", self._serve, self._memory),
            ("fibernb-ahead", self._serve_idly, self._ahead),
            ("fibernb-moves", self._serve, self._moves),
        ):
            threading.Thread(target=serve, args=(orders,), name=name, daemon=True).start()

    def begin(self, order: Memory | Move) -> None:
        if isinstance(order, Grow) and order.ahead:
            self._ahead.put(order)
        else:
            (self._memory if isinstance(order, Memory) else self._moves).put(order)

    def ended(self) -> list[Ended]:
        """What has ended since the last time."""
        found = []
        while not self._ended.empty():
            found.append(self._ended.get())
        return found

    def _serve_idly(self, orders: queue.SimpleQueue[Memory | Move]) -> None:
        """In a thread that gives way to all others. Where that cannot be had, it takes its turns as they do."""
        if hasattr(os, "SCHED_IDLE"):
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # 0: of this thread
        self._serve(orders)

    def _serve(self, orders: queue.SimpleQueue[Memory | Move]) -> None:
        while True:
            order = orders.get()
            self._ended.put(Ended(order, self._carry_out(order)))
            self._wake()

    def _carry_out(self, order: Memory | Move) -> str:
        if isinstance(order, Grow):
            return (self._arena.grow_ahead if order.ahead else self._arena.grow)(order.size_bytes)
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
