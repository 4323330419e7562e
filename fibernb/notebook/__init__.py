"""The magics, their views, and everything else that FiberNB shows in a notebook.

Light to import, because engines import `fibernb.notebook.standin` and `fibernb.notebook.arrival`.
"""

from __future__ import annotations

import importlib
from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Put FiberNB into an IPython shell."""
    importlib.import_module("fibernb.notebook.extension").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take it out again."""
    importlib.import_module("fibernb.notebook.extension").unload(shell)
