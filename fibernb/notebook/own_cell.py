"""Lets a thread print and display into the cell that started it, whatever cell runs meanwhile."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

from IPython.core.interactiveshell import InteractiveShell


def in_this_cell(shell: InteractiveShell, function: Callable[[], None]) -> Callable[[], None]:
    """The function as it is to be called in a thread of its own, so that what it shows belongs to the cell of now.

    What is printed follows the context. What is displayed does so since ipykernel 7; before that, the kernel has one
    parent for all displays, the cell that runs, and lets hooks of a thread change a message.
    """
    context = contextvars.copy_context()
    publisher: Any = shell.display_pub
    parent = getattr(publisher, "parent_header", None)

    def name_parent(message: dict[str, Any]) -> dict[str, Any]:
        message["parent_header"] = parent
        return message

    def call() -> None:
        if parent is not None:
            publisher.register_hook(name_parent)
        function()

    return lambda: context.run(call)
