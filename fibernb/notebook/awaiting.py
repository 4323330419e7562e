"""Lets ``%%parallel`` cells be awaited.

Since ipykernel 7.4 a click on a widget waits for the shell that made the widget, so a cell that blocks has buttons that
do nothing. A cell that awaits leaves the shell free.
"""

from __future__ import annotations

import importlib.metadata
import re
from typing import Final

from IPython.core.interactiveshell import InteractiveShell

AWAITED: Final = "await get_ipython().find_cell_magic('parallel').__self__.awaited"
"""How a line begins that the transformer has made."""

_PARALLEL: Final = re.compile(r"%%parallel(?:[ \t]+(?P<line>.*?))?\s*")


def hears_clicks(*, awaited: bool) -> bool:
    """Whether this kernel hears of a click on a widget while a cell runs that waits, by ``await`` or in a blocking way.

    Before ipykernel 7 it does not in either case: a kernel goes through its messages one by one. Up to 7.3 clicks come
    to a thread beside the cell, from 7.4 on to that which made the widget.
    """
    major, minor = (int(part) for part in importlib.metadata.version("ipykernel").split(".")[:2])
    return major >= 7 and (awaited or (major, minor) < (7, 4))


class Awaiting:
    """An input transformer: a cell that is a ``%%parallel`` awaits it, where the shell can await.

    One inside of another cell, as below ``%%time``, stays as it is: what is around it may not be able to await.
    """

    has_side_effects = True  # so that IPython leaves it out when it only asks whether a cell is complete

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._cells = 0  # that run

    def begin_cell(self, *_: object) -> None:
        """A cell begins to run; it has been transformed already."""
        self._cells += 1
        if self._cells == 1:
            _forget_display_errors(self._shell)

    def end_cell(self, *_: object) -> None:
        """A cell has ended. The one that loads the extension has not begun."""
        self._cells = max(0, self._cells - 1)

    def __call__(self, lines: list[str]) -> list[str]:
        found = _PARALLEL.fullmatch(lines[0]) if lines else None
        body = "".join(lines[1:])
        if found is None or not body.strip() or self._cells or not self._can_await():
            return lines
        return [f"{AWAITED}({found['line'] or ''!r}, {body!r})\n"]

    def _can_await(self) -> bool:
        return bool(self._shell.autoawait) and hasattr(self._shell, "kernel")


def _forget_display_errors(shell: InteractiveShell) -> None:
    """Since 7.4 ipykernel marks a cell whose value failed to be shown, and takes the mark away only at a cell that does
    not await: those that do would be told to have failed as well.
    """
    if "_last_traceback_during_displayhook" in vars(shell):
        vars(shell)["_last_traceback_during_displayhook"] = False
    if hasattr(shell.displayhook, "msg"):
        shell.displayhook.msg = None  # what was to be shown
