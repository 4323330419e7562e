"""Plain tasks of a notebook: they print into the cell that submitted them, and end with it when it is interrupted."""

from __future__ import annotations

import asyncio
import bisect
import contextvars
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from fibernb import config as configuration
from fibernb.client import code, current
from fibernb.client.inbox import print_said
from fibernb.client.session import Session
from fibernb.core.messages import Progress, Said
from fibernb.model import TaskId, client_of
from fibernb.notebook.printing import Printer
from fibernb.notebook.task_bars import TaskBars, later
from fibernb.notebook.task_output import TaskOutput

REMEMBERED_CELLS: Final = 200

CATCH_UP_S: Final = 2.0
"""How long the end of a cell waits for what its tasks have printed already; it waits for callbacks of the user too."""

MakeBars: TypeAlias = Callable[[], TaskBars]
"""Called in the context of a cell whose tasks have progress bars."""


class CellTasks:
    """Knows which cell a task belongs to, by the numbers of tasks, which rise."""

    def __init__(self, printer: Printer, make_bars: MakeBars) -> None:
        self._printer = printer
        self._make_bars = make_bars
        self._session: Session | None = None
        self._cells: list[_Cell] = []

    def begin_cell(self, *_: object) -> None:
        """A cell begins: tasks from now on are its own, and functions may have changed."""
        code.next_epoch()
        session = current.session
        if session is not self._session:
            self.follow(session)
        self._cells.append(_Cell(_last_task(session), self._printer, self._make_bars))
        del self._cells[:-REMEMBERED_CELLS]

    def follow(self, session: Session | None) -> None:
        """Another session is used from now on; the cell that runs is the first of it, even one that loads us."""
        self._session = session
        running = self._cells[-1:] or [_Cell(0, self._printer, self._make_bars)]
        running[0].last_before = 0
        self._cells = running
        if session is not None:
            session.inbox.on_said = self.hear

    def leave(self) -> None:
        """Tasks print where they would without a notebook."""
        if self._session is not None and self._session.inbox.on_said == self.hear:
            self._session.inbox.on_said = print_said
        self._session = None

    def end_cell(self, result: Any) -> None:
        """A cell has ended: if it was interrupted, its tasks and all that they submitted are stopped."""
        session = current.session
        if session is not None:
            session.inbox.catch_up(CATCH_UP_S)
        if self._cells:
            self._cells[-1].end()
        if not isinstance(result.error_in_exec, KeyboardInterrupt | asyncio.CancelledError) or session is None:
            return
        last_before = self._cells[-1].last_before if self._cells and session is self._session else 0
        with session.books.mutex:
            refs = [ref for task, ref in session.books.ledger.pending.items() if task > last_before]
        session.cancel(refs)

    def hear(self, said: Said) -> None:
        """Show what a task said in the cell that it belongs to; a task of a task counts for the latest cell."""
        session = self._session
        if session is None:
            return
        at = len(self._cells)
        if client_of(said.task) == session.client:
            at = bisect.bisect_left(self._cells, said.task, key=lambda cell: cell.last_before)
        self._cells[max(0, at - 1)].show(said)


class _Cell:
    """A cell, and what its tasks show in it."""

    def __init__(self, last_before: TaskId, printer: Printer, make_bars: MakeBars) -> None:
        self.last_before = last_before
        self._make_bars = make_bars
        self._bars: TaskBars | None = None
        self._context = contextvars.copy_context()
        self._output = TaskOutput(printer, later, configuration.load())

    def show(self, said: Said) -> None:
        if isinstance(said, Progress):
            self._bars = self._bars or self._context.run(self._make_bars)
            self._bars.take(said)
        else:
            self._output.take(said)

    def end(self) -> None:
        """Show now what is to be shown."""
        if self._bars is not None:
            self._bars.show()
        self._output.end()


def _last_task(session: Session | None) -> TaskId:
    """The highest number that this client has given to a task by now, whether that is answered or not."""
    return 0 if session is None else session.new_ids(0) - 1
