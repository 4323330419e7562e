"""Interrupts of a cell that blocks, pressed more often than anything is to be done about."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Final

MEANT: Final = 2
"""The first stops the cell, the second replaces its engines. There is nothing that a third could do."""

QUIET_S: Final = 0.5
"""For so long after a cell was stopped, an interrupt still belongs to it. Raised in the shell's own code, it would cost
the cell its traceback and the kernel its reply."""


class Presses:
    """While the ``with`` lasts, raises KeyboardInterrupt at the first two interrupts and takes no notice of others.

    Does so only where an interrupt would raise KeyboardInterrupt at any time: in the main thread, under Python's own
    handler, which is there again when a press is no longer taken for one too many.
    """

    def __init__(self) -> None:
        self._count = 0
        self._quiet_until_s = float("inf")  # of the monotonic clock
        self._listens = False

    def __enter__(self) -> Presses:
        if threading.current_thread() is threading.main_thread() and _is_usual(signal.getsignal(signal.SIGINT)):
            signal.signal(signal.SIGINT, self._hear)
            self._listens = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listens and self._count == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._quiet_until_s = time.monotonic() + QUIET_S

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() >= self._quiet_until_s:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.default_int_handler(number, frame)
        if self._count < MEANT and self._quiet_until_s == float("inf"):
            self._count += 1
            raise KeyboardInterrupt


def _is_usual(handler: object) -> bool:
    return handler is signal.default_int_handler or isinstance(getattr(handler, "__self__", None), Presses)
