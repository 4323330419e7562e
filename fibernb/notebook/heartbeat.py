"""Keeps an interrupt from waiting for the event loop: SIGINT alone does not wake it."""

from __future__ import annotations

import asyncio
import threading
from typing import Final

PERIOD_S: Final = 0.1


class Heartbeat:
    """Wakes the main thread's event loop while a cell runs, so that an interrupt ends an ``await`` in it at once."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def begin_cell(self, *_: object) -> None:
        """A cell begins. Only the main thread is interrupted; outside of a kernel there may be no loop."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._stop()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._beat(loop)

    def end_cell(self, *_: object) -> None:
        """A cell has ended: nothing beats when nothing runs."""
        if threading.current_thread() is threading.main_thread():
            self._stop()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(PERIOD_S, self._beat, loop)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
