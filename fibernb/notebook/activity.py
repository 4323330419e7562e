"""Tells the server that work goes on, which shuts kernels down that have been silent for long.

A live view tells it by itself. Tasks have none: neither a cell that waits for them says anything, nor a kernel that is
idle while they run.
"""

from __future__ import annotations

import contextvars
import threading
import uuid
from collections.abc import Callable
from typing import Any, Final

from IPython.display import update_display

from fibernb.client import current

PERIOD_S: Final = 30.0
"""The time between two signs of life, which is short against that after which a server loses patience."""

StartTimer = Callable[[float, Callable[[], None]], Any]


class Activity:
    """Gives signs of life while this kernel has calls that are not answered; none when nothing runs.

    Parameters
    ----------
    start_timer : calls something after some seconds; what it gives has ``cancel`` and ``join``.
    """

    def __init__(self, start_timer: StartTimer | None = None) -> None:
        self._start_timer = start_timer or _timer
        self._lock = threading.Lock()
        self._context = contextvars.copy_context()
        self._timer: Any = None
        self._cell_runs = False

    def begin_cell(self, *_: object) -> None:
        """A cell begins: it may make calls, and whatever comes from now on belongs to it."""
        with self._lock:
            self._context, self._cell_runs = contextvars.copy_context(), True
            if self._timer is None:
                self._timer = self._start_timer(PERIOD_S, self._beat)

    def end_cell(self, *_: object) -> None:
        """A cell has ended. Its calls may go on."""
        self._cell_runs = False

    def leave(self) -> None:
        """No more of it."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join()

    def _beat(self) -> None:
        with self._lock:
            if self._timer is None:
                return
            work = _is_work_left()
            self._timer = self._start_timer(PERIOD_S, self._beat) if work or self._cell_runs else None
            context = self._context.copy()
        if work:
            context.run(_show_nothing)


def _is_work_left() -> bool:
    session = current.session
    return session is not None and session.over is None and bool(session.books.ledger.pending)


def _show_nothing() -> None:
    """To update what nobody shows changes nothing, and is a message."""
    update_display({}, display_id=f"fibernb-{uuid.uuid4().hex}", raw=True)


def _timer(pause_s: float, call: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(pause_s, call)
    timer.daemon = True
    timer.start()
    return timer
