"""Lets the user stop code of his own that runs while a cell awaits, but does not await itself.

While a cell awaits, the kernel's handler of SIGINT cancels it in its event loop. What holds the loop up, such as the
pickling of a value, or a repr, would have to end by itself first.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """One interrupt raises KeyboardInterrupt at once, as it does in a cell that does not await.

    Those that follow it are ignored: they would hit the shell, and the kernel would never reply.
    """
    former = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(former) or former is signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _Once().hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


class _Once:
    def __init__(self) -> None:
        self._heard = False

    def hear(self, _number: int, _frame: object) -> None:
        if not self._heard:
            self._heard = True
            raise KeyboardInterrupt
