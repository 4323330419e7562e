"""Waiting for a cell: in short ticks, so that its view moves and an interrupt is heard."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from fibernb.errors import CellTimeout
from fibernb.notebook.view import PATIENCE_S, PERIOD_S, LiveView
from fibernb.notebook.work import Work

STOP_S: Final = 30.0
"""How long to wait for engines that are being replaced."""


def wait_for(
    work: Work, view: LiveView, timeout_s: float | None, show_output: Callable[[], None] | None = None
) -> None:
    """Wait until the work has ended, whatever it came to. ``show_output`` is called while it runs, after the view.

    Raises `CellTimeout` when it took longer than ``timeout_s``, and KeyboardInterrupt when the user stopped it. In both
    cases it has been cancelled, and its engines can be used again.
    """
    try:
        if not _watch(work, view, timeout_s, show_output):
            stop(work)
            raise CellTimeout(f"the cell ran longer than {timeout_s:g} s and was cancelled")
    except KeyboardInterrupt:
        stop(work)
        raise
    finally:
        view.close(work.snapshot())


def stop(work: Work) -> None:
    """Cancel the work and wait until its engines are free or replaced; an interrupt meanwhile replaces them at once."""
    work.cancel()
    try:
        work.wait(STOP_S)
    except KeyboardInterrupt:
        work.cancel(force=True)
        work.wait(STOP_S)


def _watch(work: Work, view: LiveView, timeout_s: float | None, show_output: Callable[[], None] | None) -> bool:
    """Whether it ended in time."""
    begin = time.monotonic()
    deadline = float("inf") if timeout_s is None else begin + timeout_s
    while not work.wait(min(PERIOD_S, deadline - time.monotonic())):
        now = time.monotonic()
        if now >= deadline:
            return False
        if now - begin > PATIENCE_S:
            view.show(work.snapshot())
            if show_output is not None:
                show_output()
    return True
