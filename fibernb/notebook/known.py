"""What the words of a magic's line can stand for in one notebook, for completion."""

from __future__ import annotations

import contextlib
from typing import Final

from IPython.core.interactiveshell import InteractiveShell

from fibernb.notebook.body import names_of_user
from fibernb.notebook.clusters import Clusters
from fibernb.notebook.names import names_assigned

MAX_CELLS: Final = 100
"""So many of the latest inputs are looked through for names that live on the engines."""


class NotebookWords:
    """Looks at the notebook and at what it knows of its cluster; asks nobody, so that a key press never waits."""

    def __init__(self, shell: InteractiveShell, clusters: Clusters) -> None:
        self._shell = shell
        self._clusters = clusters

    def size(self) -> int:
        """How many seats there are; 0 without a cluster."""
        return self._clusters.size()

    def clusters(self) -> list[str]:
        """The clusters that run."""
        return sorted(connection.name for connection in self._clusters.running())

    def names(self) -> list[str]:
        """Variables of the notebook, and what its cells have assigned on engines."""
        own = names_of_user(self._shell, frozenset(self._shell.user_ns))
        return sorted({*own, *self._names_of_cells()})

    def _names_of_cells(self) -> set[str]:
        manager = self._shell.history_manager
        inputs = [] if manager is None else manager.input_hist_raw[-MAX_CELLS:]
        found: set[str] = set()
        for source in inputs:
            if source.startswith("%%parallel"):
                with contextlib.suppress(SyntaxError):
                    found |= names_assigned(self._shell.transform_cell(source.partition("\n")[2]))
        return found
