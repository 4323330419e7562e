"""The IPython shell that this process may be, of a notebook or in a terminal.

Who imports FiberNB there without ``%load_ext fibernb`` and starts a cluster gets the extension all the same, once: what
functions read is looked at with every cell, an interrupted cell stops its tasks, errors show the user's own lines.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

from fibernb.engine import context

NOTEBOOK: Final = "fibernb.notebook"  # above this layer

_offered = False


def load_extension() -> None:
    """Load the extension into the shell, if there is one. Only the first call does: what is unloaded stays so."""
    global _offered
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or _offered or context.current() is not None:
        return
    _offered = True
    importlib.import_module(NOTEBOOK).load_ipython_extension(shell)
