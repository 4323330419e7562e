"""Who may send a message to the front end: the cells that run take turns, and in each the view and the output.

A notebook sends about ten messages a second while cells run, however many of them do.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final

from fibernb.notebook.view import LiveView
from fibernb.notebook.work import Work

_running: Final[set[Turns]] = set()
"""Of all cells of this process that run, those in the background included."""


class Turns:
    """The turns of one cell, while the ``with`` lasts: it asks for one at every tick of its clock.

    Parameters
    ----------
    show_output : shows what there is and tells how many messages that took; None where nothing is shown early.
    """

    def __init__(self, view: LiveView, show_output: Callable[[], int] | None) -> None:
        self._view = view
        self._show_output = show_output
        self._is_views = True  # the next turn
        self._others = 0  # that have theirs before this cell has its next
        self._ahead = 0  # messages

    def __enter__(self) -> Turns:
        _running.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _running.discard(self)

    def take(self, work: Work) -> None:
        """A tick has come: if it is this cell's turn, the view or the output shows what it has."""
        if self._others:
            self._others -= 1
            return
        self._others = len(_running) - 1
        if self._ahead:
            self._ahead -= 1
            return
        sent = 0 if self._is_views or self._show_output is None else self._show_output()
        if not sent:
            self._view.show(work.snapshot())
        self._ahead = max(0, sent - 1)
        self._is_views = sent > 0
