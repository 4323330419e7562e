"""Interrupts of a cell that awaits.

The kernel hears the first one only, and hands it on as a cancellation; a second one, which replaces engines at once,
would go unheard.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from types import TracebackType
from typing import Any, Final

CALM_S: Final = 0.2
"""Who presses again and again is taken to have stopped when nothing came for so long."""

SINGLE_S: Final = 0.05
"""And who has pressed once, to have meant that."""


class Interrupts:
    """Takes SIGINT while the ``with`` lasts, in the main thread of a process. Belongs to the event loop that runs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pressed = asyncio.Event()
        self._former: Any = None
        self._count = 0

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)

    def taken(self) -> bool:
        """Whether there was an interrupt that nobody has taken yet."""
        return self._pressed.is_set()

    def take(self) -> KeyboardInterrupt | None:
        """The interrupt that nobody has taken yet, if there was one."""
        if not self._pressed.is_set():
            return None
        self._pressed.clear()
        return KeyboardInterrupt()

    async def calm(self) -> None:
        """After an interrupt, wait until no more come: they would hit the kernel while it replies."""
        while self._count:
            self._pressed.clear()
            try:
                await asyncio.wait_for(self._pressed.wait(), CALM_S if self._count > 1 else SINGLE_S)
            except TimeoutError:
                return

    async def wait_or(self, other: asyncio.Future[Any]) -> None:
        """Wait for an interrupt or for the other thing, whose error is raised."""
        pressed = asyncio.ensure_future(self._pressed.wait())
        try:
            await asyncio.wait({pressed, other}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pressed.cancel()
        if other.done():
            other.result()

    def _hear(self, _number: int, _frame: object) -> None:
        self._count += 1
        self._loop.call_soon_threadsafe(self._pressed.set)
