"""Interrupts of a cell that blocks, pressed more often than anything is to be done about."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

from fibernb.client.interrupts import QUIET_S, Quiet

MEANT: Final = 2
"""The first stops the cell, the second replaces its engines. There is nothing that a third could do."""


class Presses:
    """While the ``with`` lasts, raises KeyboardInterrupt at the first two interrupts and takes no notice of others.

    Does so only where an interrupt would raise KeyboardInterrupt at any time: in the main thread, under Python's own
    handler, which is there again when a press is no longer taken for one too many.
    """

    def __init__(self) -> None:
        self._count = 0
        self._quiet_until_s = float("inf")  # of the monotonic clock
        self._former: Any = None

    def __enter__(self) -> Presses:
        self._former = _take_over(self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._former is not None and self._count == 0:
            signal.signal(signal.SIGINT, self._former)
        self._quiet_until_s = time.monotonic() + QUIET_S

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() >= self._quiet_until_s:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.default_int_handler(number, frame)
        if self._count < MEANT and self._quiet_until_s == float("inf"):
            self._count += 1
            raise KeyboardInterrupt


class Bursts:
    """As `Presses`, for what may hear any number of interrupts, one after the other: of those that come within
    `QUIET_S` of one that was heard it takes no notice.
    """

    def __init__(self) -> None:
        self._quiet_until_s = 0.0  # of the monotonic clock
        self._former: Any = None

    def __enter__(self) -> Bursts:
        self._former = _take_over(self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._former is not None and signal.getsignal(signal.SIGINT) == self._hear:
            is_quiet = time.monotonic() < self._quiet_until_s
            signal.signal(signal.SIGINT, Quiet().hear if is_quiet else self._former)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if now_s >= self._quiet_until_s:
            self._quiet_until_s = now_s + QUIET_S
            raise KeyboardInterrupt


def _take_over(handler: Callable[[int, FrameType | None], None]) -> Any:
    """Install a handler of SIGINT in the place of the usual one, and give that one; None where there is another."""
    former = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not _is_usual(former):
        return None
    signal.signal(signal.SIGINT, handler)
    return former


def _is_usual(handler: object) -> bool:
    return handler is signal.default_int_handler or isinstance(
        getattr(handler, "__self__", None), Presses | Bursts | Quiet
    )
