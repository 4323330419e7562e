"""Runs the source of cells in the engine's namespace."""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
from collections import OrderedDict
from collections.abc import Coroutine
from types import CodeType
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell

from fibernb.engine.context import CellContext
from fibernb.engine.reporter import owner
from fibernb.engine.streams import restore_streams
from fibernb.model import TaskId

REMEMBERED_SOURCES: Final = 1000  # cells whose lines tracebacks can still show
FLAGS: Final = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class CellLoop:
    """The event loop of an engine's cells: one for all, so that what a cell leaves running goes on while later cells
    await."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """The coroutine's value. An interrupt cancels it, lets it clean up, and goes on to the caller."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(coroutine)
        try:
            return self._loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()
            self._loop.run_until_complete(asyncio.wait([task]))
            if not task.cancelled():
                task.exception()  # seen: the interrupt tells enough
            raise


class Cells:
    """Runs source text as IPython would, and gives the value of its last expression.

    A cell that awaits runs in an event loop; one that does not runs in none, so that `asyncio.run` works in it.

    ``namespace`` is the engine's.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self.namespace: dict[str, Any] = shell.user_ns
        self._shell = shell
        self._loop = CellLoop()
        self._remembered: OrderedDict[str, None] = OrderedDict()

    def run(self, source: str, cell: CellContext, task: TaskId) -> Any:
        """The value of the last expression; None when there is none, or when a semicolon ends it.

        ``task`` is the one that runs the cell: what coroutines say that outlive the cell belongs to it.
        """
        restore_streams()
        owned = owner.set(task)
        self._shell.events.trigger("pre_execute")
        try:
            value = self._execute(source, cell)
        finally:
            self._shell.events.trigger("post_execute")
            owner.reset(owned)
        return value

    def _execute(self, source: str, cell: CellContext) -> Any:
        text = "\n" * (cell.first_line - 1) + self._shell.transform_cell(source)
        self._remember(cell.filename, text)
        tree = compile(text, cell.filename, "exec", ast.PyCF_ONLY_AST | FLAGS, dont_inherit=True)
        tree = self._shell.transform_ast(tree)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        codes = [compile(tree, cell.filename, "exec", FLAGS, dont_inherit=True)]
        if isinstance(last, ast.Expr):
            codes.append(compile(ast.Expression(last.value), cell.filename, "eval", FLAGS, dont_inherit=True))
        value = self._evaluate(codes)
        return None if self._shell.displayhook.semicolon_at_end_of_expression(source) else value

    def _evaluate(self, codes: list[CodeType]) -> Any:
        """Run one after the other; the value of the last. All run in the event loop if one of them awaits."""
        if any(code.co_flags & inspect.CO_COROUTINE for code in codes):
            return self._loop.run(self._await_all(codes))
        value = None
        for code in codes:
            value = eval(code, self.namespace)
        return value

    async def _await_all(self, codes: list[CodeType]) -> Any:
        value = None
        for code in codes:
            value = eval(code, self.namespace)
            if code.co_flags & inspect.CO_COROUTINE:
                value = await value
        return value

    def _remember(self, filename: str, text: str) -> None:
        """Let tracebacks find the lines."""
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        self._remembered.pop(filename, None)
        self._remembered[filename] = None
        if len(self._remembered) > REMEMBERED_SOURCES:
            linecache.cache.pop(self._remembered.popitem(last=False)[0], None)
