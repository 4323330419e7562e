"""The magics, their views, and everything else that FiberNB shows in a notebook.

Light to import, because engines import `fibernb.notebook.standin` and `fibernb.notebook.arrival`.
"""

from __future__ import annotations

import importlib
from typing import Any


def load_ipython_extension(shell: Any, *, greets: bool = False) -> None:
    """Put FiberNB into an IPython shell. ``greets``: the user has asked for it, and hears of clusters left running."""
    extension = importlib.import_module("fibernb.notebook.extension")
    extension.load(shell)
    if greets:
        extension.greet(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take it out again."""
    importlib.import_module("fibernb.notebook.extension").unload(shell)
