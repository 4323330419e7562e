"""The body of a cell: what it is called in tracebacks, whether it is Python, and which names it uses."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from IPython.core.interactiveshell import InteractiveShell

from fibernb.notebook.names import names_assigned, names_read, names_to_push


@dataclass(frozen=True, kw_only=True)
class Body:
    """A cell body that is Python, once IPython's syntax is transformed.

    ``first_line`` is the line of the notebook's cell in which ``source`` begins. ``is_quiet``: its value is wanted, but
    not to be shown.
    """

    source: str
    filename: str
    first_line: int
    reads: frozenset[str]
    assigns: frozenset[str]
    is_quiet: bool = False


def body_of(shell: InteractiveShell, source: str, first_line: int, *, keeps_value: bool = False) -> Body:
    """Look at a body. Raises SyntaxError, with the line of the notebook's cell, if it is not Python.

    ``keeps_value``: what it comes to is bound to a name, so a semicolon at its end only keeps it from being shown.
    """
    is_quiet = keeps_value and source.rstrip().endswith(";")
    if is_quiet:
        source = source.rstrip().rstrip(";")
    filename = f"In[{_number_of_cell(shell)}]"
    transformed = shell.transform_cell(source)
    ast.parse("\n" * (first_line - 1) + transformed, filename)
    return Body(
        source=source,
        filename=filename,
        first_line=first_line,
        reads=names_read(transformed),
        assigns=names_assigned(transformed),
        is_quiet=is_quiet,
    )


def names_of_user(shell: InteractiveShell, names: frozenset[str]) -> list[str]:
    """Those of the names that the user has in this notebook."""
    return names_to_push(names, shell.user_ns, shell.user_ns_hidden)


def _number_of_cell(shell: InteractiveShell) -> int:
    """The number of the cell that runs; the shell's own count is that of the next one already, since IPython 9."""
    running = shell.displayhook.exec_result
    number = None if running is None else running.execution_count
    return int(shell.execution_count if number is None else number)
