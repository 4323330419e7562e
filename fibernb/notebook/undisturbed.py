"""Lets something be shown whole, though the user interrupts meanwhile."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """An interrupt that comes while this lasts takes effect afterwards."""
    former = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or former is None:  # None: it is not Python's
        yield
        return
    interrupts: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        for number in interrupts:
            signal.raise_signal(number)
