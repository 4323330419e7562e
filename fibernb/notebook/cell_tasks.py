"""Plain tasks of a notebook: they print into the cell that submitted them, and end with it when it is interrupted."""

from __future__ import annotations

import asyncio
import bisect
import contextvars
from typing import Any, Final

from fibernb import config as configuration
from fibernb.client import code, current
from fibernb.client.session import Session
from fibernb.core.messages import Display, Output, Said
from fibernb.model import TaskId, client_of
from fibernb.notebook.excerpt import shorten
from fibernb.notebook.gathering import SourceOutput
from fibernb.notebook.grouping import Block, format_ranks
from fibernb.notebook.printing import Printer, Text, write

REMEMBERED_CELLS: Final = 200


class CellTasks:
    """Knows which cell a task belongs to, by the numbers of tasks, which rise."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._session: Session | None = None
        self._cells: list[_Cell] = []

    def begin_cell(self, *_: object) -> None:
        """A cell begins: tasks from now on are its own, and functions may have changed."""
        code.next_epoch()
        session = current.session
        if session is not self._session:
            self._session = session
            self._cells.clear()
        if session is not None:
            session.inbox.on_said = self.hear
        self._cells.append(_Cell(_last_task(session), self._printer))
        del self._cells[:-REMEMBERED_CELLS]

    def end_cell(self, result: Any) -> None:
        """A cell has ended: if it was interrupted, its tasks and all that they submitted are stopped."""
        session = current.session
        if not isinstance(result.error_in_exec, KeyboardInterrupt | asyncio.CancelledError) or session is None:
            return
        last_before = self._cells[-1].last_before if self._cells and session is self._session else 0
        with session.books.mutex:
            refs = [ref for task, ref in session.books.ledger.pending.items() if task > last_before]
        session.cancel(refs)

    def hear(self, said: Said) -> None:
        """Show what a task said in the cell that it belongs to; a task of a task counts for the latest cell."""
        session = self._session
        if session is None or not isinstance(said, Output | Display):
            return
        at = len(self._cells)
        if client_of(said.task) == session.client:
            at = bisect.bisect_left(self._cells, said.task, key=lambda cell: cell.last_before)
        self._cells[max(0, at - 1)].show(said)


class _Cell:
    """A cell, and how much its tasks may still show in it."""

    def __init__(self, last_before: TaskId, printer: Printer) -> None:
        config = configuration.load()
        self.last_before = last_before
        self._printer = printer
        self._context = contextvars.copy_context()
        self._left_lines = config.output_limit_lines
        self._left_bytes = config.output_limit_bytes

    def show(self, said: Output | Display) -> None:
        if self._left_lines > 0 and self._left_bytes > 0:
            self._context.run(self._show, said)

    def _show(self, said: Output | Display) -> None:
        if isinstance(said, Output):
            self._print(said)
        else:
            output = SourceOutput(2, 1)
            output.take(said)
            self._printer.show([Block((said.rank,), tuple(output.items()))])

    def _print(self, said: Output) -> None:
        lines = shorten(said.text, self._left_bytes).splitlines()[: self._left_lines]
        self._left_lines -= len(lines)
        self._left_bytes -= len(said.text)
        write(Text(said.stream, "".join(f"[{format_ranks([said.rank])}] {line}\n" for line in lines)))
        if self._left_lines <= 0 or self._left_bytes <= 0:
            write(Text("stdout", "… more output of this cell's tasks is in %fiber log …\n"))


def _last_task(session: Session | None) -> TaskId:
    """The number of the last task that this client has submitted and that is not answered."""
    if session is None:
        return 0
    with session.books.mutex:
        return next((task for task in reversed(session.books.ledger.pending) if client_of(task) == session.client), 0)
