"""The live view of seats that are filling."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from IPython.core.interactiveshell import InteractiveShell

from fibernb.core.messages import SeatsChanged
from fibernb.notebook.snapshot import Snapshot
from fibernb.notebook.view import PATIENCE_S, PERIOD_S, view_for


class SeatsView:
    """Shows how many seats are ready while they fill; a context around the wait."""

    def __init__(self, shell: InteractiveShell, seats: int, *, wanted: bool) -> None:
        self._seats = seats
        self._view = view_for(shell, wanted=wanted, on_cancel=None)  # scaling goes on in the hub whoever waits
        self._began_at = time.monotonic()
        self._shown_at = self._began_at + PATIENCE_S - PERIOD_S
        self._ready = 0

    def show(self, told: SeatsChanged) -> None:
        """Take in what the hub said; shown now and then."""
        self._ready = told.ready
        now = time.monotonic()
        if now - self._shown_at > PERIOD_S:
            self._shown_at = now
            self._view.show(self._snapshot())

    def __enter__(self) -> SeatsView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._view.close(self._snapshot())
        sys.stderr.flush()

    def _snapshot(self) -> Snapshot:
        states = {"done": min(self._ready, self._seats), "left": max(0, self._seats - self._ready)}
        elapsed_s = time.monotonic() - self._began_at
        return Snapshot(states=states, by_rank={}, elapsed_s=elapsed_s, unit="engines", last_lines={})
