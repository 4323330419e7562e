"""The progress bars of a cell's plain tasks and actors: one display in that cell, which stays when they have ended."""

from __future__ import annotations

import contextvars
import threading
import uuid
from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display, update_display

from fibernb import config as configuration
from fibernb.core.messages import Progress
from fibernb.model import Bar, Rank, TaskId
from fibernb.notebook.live_page import bars_html
from fibernb.notebook.snapshot import MAX_BARS, bars_text
from fibernb.notebook.view import PERIOD_S

Bundle: TypeAlias = dict[str, str]
Publish: TypeAlias = Callable[[Bundle, str, bool], object]
"""Shows a bundle under a display's id, anew or (True) in the place of what it shows."""

Later: TypeAlias = Callable[[float, Callable[[], None]], object]


def bars_for(shell: InteractiveShell) -> TaskBars:
    """Bars of the cell that runs; in a terminal, and where live views are not wanted, nothing of them is shown."""
    is_wanted = hasattr(shell, "kernel") and configuration.load().progress
    return TaskBars(_publish if is_wanted else _ignore, later)


class TaskBars:
    """Bars of one cell, shown in the context in which this is made, at most once a `PERIOD_S`.

    Those that are open are shown, by rank; when every one is closed, the latest.
    """

    def __init__(self, publish: Publish, later: Later) -> None:
        self._publish = publish
        self._later = later
        self._context = contextvars.copy_context()
        self._display_id = f"fibernb-{uuid.uuid4().hex}"
        self._lock = threading.Lock()
        self._open: dict[tuple[TaskId, int], tuple[Rank, Bar]] = {}
        self._closed: dict[tuple[TaskId, int], tuple[Rank, Bar]] = {}
        self._is_due = False
        self._is_shown = False

    def take(self, said: Progress) -> None:
        """Show these bars soon. From any thread."""
        with self._lock:
            for bar in said.bars:
                key = said.task, bar.bar
                self._open.pop(key, None)
                (self._closed if bar.closed else self._open)[key] = said.rank, bar
            for key in list(islice(self._closed, max(0, len(self._closed) - MAX_BARS))):
                del self._closed[key]
            if self._is_due:
                return
            self._is_due = True
        self._later(PERIOD_S, self.show)

    def show(self) -> None:
        """Show now what has changed since the last time, if anything has."""
        with self._lock:
            if not self._is_due:
                return
            shown = self._open or self._closed
            bars = sorted(shown.values(), key=lambda item: (item[0] < 0, abs(item[0]), item[1].bar))
            bundle = {"text/plain": bars_text(bars), "text/html": bars_html(bars)}
            self._context.run(self._publish, bundle, self._display_id, self._is_shown)
            self._is_shown, self._is_due = True, False


def _publish(bundle: Bundle, display_id: str, is_shown: bool) -> None:
    if is_shown:
        update_display(bundle, display_id=display_id, raw=True)
    else:
        display(bundle, display_id=display_id, raw=True)


def later(pause_s: float, call: Callable[[], None]) -> None:
    """Call it from a thread, after so many seconds."""
    timer = threading.Timer(pause_s, call)
    timer.daemon = True
    timer.start()


def _ignore(bundle: Bundle, display_id: str, is_shown: bool) -> None:
    """Nothing is shown."""
