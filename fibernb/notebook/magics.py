"""``%fiber``, ``%parallel`` and ``%%parallel`` as IPython calls them."""

from __future__ import annotations

import re
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, no_var_expand

from fibernb.notebook import request
from fibernb.notebook.arguments import HelpAsked, is_expression
from fibernb.notebook.commands import FIBER_HELP, PARALLEL_HELP
from fibernb.notebook.parallel import Parallel
from fibernb.notebook.presses import Bursts
from fibernb.notebook.usage import UsageError, did_you_mean
from fibernb.notebook.verbs import Verbs

NAMES = {"line": ("fiber", "parallel"), "cell": ("parallel",)}
"""The magics that the class defines, by kind."""

_OPTION: Final = re.compile(r"--?[A-Za-z][\w-]*(?=[\s=]|$)")


@magics_class
class FiberMagics(Magics):
    """Engines for this notebook."""

    def __init__(self, shell: InteractiveShell, verbs: Verbs, parallel: Parallel) -> None:
        super().__init__(shell)
        self._verbs = verbs
        self._parallel = parallel

    @line_magic
    def fiber(self, line: str) -> Any:
        try:
            with Bursts():
                return self._verbs.run(line)
        except HelpAsked as asked:
            print(asked)
            return None

    fiber.__doc__ = FIBER_HELP  # what a front end shows of a magic under the cursor

    @no_var_expand
    @line_cell_magic
    def parallel(self, line: str, cell: str | None = None) -> Any:
        try:
            with Bursts():
                return self._expression(line) if cell is None else self._parallel.run_cell(request.parse(line), cell)
        except HelpAsked as asked:
            print(asked)
            return None

    parallel.__doc__ = PARALLEL_HELP

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
            raise HelpAsked(PARALLEL_HELP)
        _check_options(source)
        return self._parallel.run_expression(source)


def _check_options(source: str) -> None:
    """Raises UsageError where options stand, for a magic that has only ``--help``."""
    option = _OPTION.match(source)
    if option is None:
        return
    hint = did_you_mean(option[0], ["--help"])
    if hint and option[0] == source:
        raise UsageError(f"%parallel: {source!r} is not understood{hint}")
    if not is_expression(source):
        raise UsageError(f"%parallel takes an expression and no options: {option[0]} belongs to a %%parallel cell")
