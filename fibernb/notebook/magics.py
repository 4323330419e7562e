"""``%fiber``, ``%parallel`` and ``%%parallel`` as IPython calls them."""

from __future__ import annotations

import re
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, no_var_expand

from fibernb.notebook import request
from fibernb.notebook.arguments import HelpAsked
from fibernb.notebook.commands import CELL, EXPRESSION
from fibernb.notebook.parallel import Parallel
from fibernb.notebook.usage import UsageError
from fibernb.notebook.verbs import Verbs

NAMES = {"line": ("fiber", "parallel"), "cell": ("parallel",)}
"""The magics that the class defines, by kind."""

_HELP: Final = re.compile(r"%%parallel(?: .*)? (?:--help|-h) *")


def without_body(lines: list[str]) -> list[str]:
    """An input transformer: ``%%parallel --help`` alone, which IPython refuses to run since it has no body."""
    if _HELP.fullmatch("".join(lines).strip()):
        return ["%parallel --help\n"]
    return lines


@magics_class
class FiberMagics(Magics):
    """Engines for this notebook."""

    def __init__(self, shell: InteractiveShell, verbs: Verbs, parallel: Parallel) -> None:
        super().__init__(shell)
        self._verbs = verbs
        self._parallel = parallel

    @line_magic
    def fiber(self, line: str) -> Any:
        """Start, scale, watch and stop engines: %fiber --help."""
        try:
            return self._verbs.run(line)
        except HelpAsked as asked:
            print(asked)
            return None

    @no_var_expand
    @line_cell_magic
    def parallel(self, line: str, cell: str | None = None) -> Any:
        """Run a cell, or an expression, on the engines: %parallel --help tells of both."""
        try:
            return self._expression(line) if cell is None else self._parallel.run_cell(request.parse(line), cell)
        except HelpAsked as asked:
            print(asked)
            return None

    async def awaited(self, line: str, cell: str) -> Any:
        """What ``%%parallel`` does, while the event loop goes on."""
        try:
            return await self._parallel.await_cell(request.parse(line), cell)
        except HelpAsked as asked:
            print(asked)
            return None

    def _expression(self, line: str) -> Any:
        source = line.strip()
        if not source:
            raise UsageError("%parallel wants an expression, such as %parallel rank ** 2 (see %parallel --help)")
        if source in ("--help", "-h"):
            raise HelpAsked(f"{EXPRESSION.help_text()}\n\n{CELL.help_text()}")
        return self._parallel.run_expression(source)
