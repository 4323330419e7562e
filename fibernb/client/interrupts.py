"""Keeps Ctrl-C from landing in the middle of a message.

While the main thread sends or reads, SIGINT is only noted and the wait is woken; the handler that was there runs when
the bookkeeping is whole again. It decides: the usual one raises KeyboardInterrupt, asyncio's cancels its task.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps in conversions that would cost ten times as much
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

_SIGINT: Final = int(signal.SIGINT)


class _MainThread:
    """The identity of the main thread, which changes when another thread forks."""

    def __init__(self) -> None:
        self.refresh()
        os.register_at_fork(after_in_child=self.refresh)

    def refresh(self) -> None:
        self.ident = threading.main_thread().ident


_main = _MainThread()


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
        if threading.get_ident() == _main.ident:
            if self._depth == 0:
                self._install()
            self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if threading.get_ident() != _main.ident:
            return
        self._depth -= 1
        if self._depth == 0 and self._handler is not None:
            _signal.signal(_SIGINT, self._handler)
            self._deliver(self._handler)

    def pending(self) -> bool:
        """Whether the calling thread has an interrupt to deal with."""
        return self.noted and threading.get_ident() == _main.ident

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
        if self.noted:
            frame, self._frame, self.noted = self._frame, None, False
            handler(_SIGINT, frame)
