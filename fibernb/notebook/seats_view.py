"""The live view of seats that are filling, and what there is to say of them when it has ended."""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from types import TracebackType

from IPython.core.interactiveshell import InteractiveShell

from fibernb.core.messages import SeatsChanged, Status
from fibernb.notebook.grouping import format_ranks
from fibernb.notebook.snapshot import Snapshot
from fibernb.notebook.status_page import is_at_work
from fibernb.notebook.view import PATIENCE_S, PERIOD_S, view_for


class SeatsView:
    """Shows how many seats are ready while they fill, and what keeps the others; a context around the wait.

    A thread shows it, so that it goes on while the hub has nothing to tell, or is not there yet.
    """

    def __init__(self, shell: InteractiveShell, seats: int, *, wanted: bool) -> None:
        self._seats = seats
        self._view = view_for(shell, wanted=wanted, on_cancel=None)  # scaling goes on in the hub whoever waits
        self._began_at = time.monotonic()
        self._told: SeatsChanged | None = None
        self._ended = threading.Event()
        context = contextvars.copy_context()  # what it shows belongs to this cell
        self._thread = threading.Thread(target=context.run, args=[self._follow], name="fibernb-seats-view", daemon=True)

    def show(self, told: SeatsChanged) -> None:
        """Take in what the hub said; shown soon. From any thread."""
        self._told = told

    def __enter__(self) -> SeatsView:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._view.close(self._snapshot())
        sys.stderr.flush()

    def _follow(self) -> None:
        pause_s = PATIENCE_S
        while not self._ended.wait(pause_s):
            self._view.show(self._snapshot())
            pause_s = PERIOD_S

    def _snapshot(self) -> Snapshot:
        ready = 0 if self._told is None else min(self._told.ready, self._seats)
        return Snapshot(
            states={"done": ready, "left": self._seats - ready},
            by_rank={},
            elapsed_s=time.monotonic() - self._began_at,
            unit="engines",
            last_lines={},
            cluster="the cluster starts" if self._told is None else _filling(self._told),
        )


def readiness(status: Status, seats: int) -> str:
    """What has become of ``seats`` seats: how many are ready, and why others are not, or not gone yet."""
    engines = "1 engine" if seats == 1 else f"{seats:,} engines"
    parts = [f"{engines} ready" if status.ready >= seats else f"{status.ready:,} of {engines} ready"]
    if status.ready < seats:
        parts += _reasons(status)
    leaving = [engine.rank for engine in status.engines if engine.rank >= seats and is_at_work(engine)]
    if leaving:
        ends = "leaves when what it runs has" if len(leaving) == 1 else "leave when what they run has"
        parts.append(f"[{format_ranks(leaving)}] {ends} ended")
    return "; ".join(parts)


def _reasons(status: Status) -> list[str]:
    """Why seats are not filled."""
    wanted = sum(engine.state == "wanted" for engine in status.engines)
    found = [f"{status.starting:,} starting"] if status.starting else []
    if wanted:
        found.append(f"{wanted:,} {'waits' if wanted == 1 else 'wait'} for a node")
    if status.problem:
        found.append(status.problem)
    return found or ["the others go on starting"]


def _filling(told: SeatsChanged) -> str:
    parts = [f"{told.starting:,} starting"] if told.starting else []
    return "; ".join([*parts, *([told.problem] if told.problem else [])])
