"""Keeps Ctrl-C from landing in the middle of a message.

While the main thread sends or reads, SIGINT is only noted and the wait is woken; the handler that was there runs when
the bookkeeping is whole again. It decides: the usual one raises KeyboardInterrupt, asyncio's cancels its task.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps in conversions that would cost ten times as much
import os
import signal
import threading
import time
from collections.abc import Callable
from threading import get_ident
from types import FrameType, TracebackType
from typing import Any, Final

QUIET_S: Final = 0.5
"""For so long after an interrupt has ended a cell, others still belong to it. Raised in the shell's own code, one would
cost the cell its traceback and the kernel its reply."""

_SIGINT: Final = int(signal.SIGINT)


class _MainThread:
    """The identity of the main thread, which changes when another thread forks."""

    def __init__(self) -> None:
        self.refresh()
        os.register_at_fork(after_in_child=self.refresh)

    def refresh(self) -> None:
        self.ident = threading.main_thread().ident


_main = _MainThread()


class Quiet:
    """A handler of SIGINT that takes no notice of it for a moment, and then gives way to Python's own."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + QUIET_S

    def hear(self, number: int, frame: FrameType | None) -> None:
        """What `signal.signal` is given."""
        if time.monotonic() >= self._until_s:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.default_int_handler(number, frame)


def stay_quiet() -> None:
    """An interrupt has ended what a cell does: take no notice of those that follow at once.

    Only where they would raise KeyboardInterrupt anywhere: in the main thread, under Python's own handler.
    """
    if threading.get_ident() == _main.ident and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, Quiet().hear)


class Deferral:
    """A context in which SIGINT waits. Does nothing in other threads than the main one; may be nested.

    Parameters
    ----------
    wake : called from the signal handler, to end a wait early.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self.noted = False
        self._wake = wake
        self._depth = 0
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        self._frame: FrameType | None = None

    def __enter__(self) -> Deferral:
        if get_ident() == _main.ident:
            if not self._depth:
                self._install()
            self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if get_ident() != _main.ident:
            return
        self._depth -= 1
        if not self._depth and self._handler is not None:
            _signal.signal(_SIGINT, self._handler)
            if self.noted:
                self._deliver(self._handler)

    def pending(self) -> bool:
        """Whether the calling thread has an interrupt to deal with."""
        return self.noted and get_ident() == _main.ident

    def _install(self) -> None:
        handler = _signal.getsignal(_SIGINT)
        self._handler = handler if callable(handler) else None
        if self._handler is not None:
            _signal.signal(_SIGINT, self._note)

    def _note(self, _number: int, frame: FrameType | None) -> None:
        self.noted = True
        self._frame = frame
        self._wake()

    def _deliver(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        frame, self._frame, self.noted = self._frame, None, False
        if in_notebook:
            stay_quiet()
        handler(_SIGINT, frame)


in_notebook = False  # set by fibernb.notebook: an interrupt is of the cell that runs, and not of the whole program
