"""What code that runs on an engine can know of it: its rank, its cell, and where to say things."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from fibernb.model import EngineId, Rank, Struct, TaskId


class CellContext(Struct, frozen=True, kw_only=True):
    """Where a cell's source comes from and who runs it with us.

    ``pushed`` are names that the user pushed by name (``--push``): of them, ``rank``, ``size`` and ``ranks`` keep the
    pushed values. ``first_line`` is the line of the notebook's cell in which the source begins.
    """

    cell_id: str
    ranks: tuple[int, ...]
    size: int
    filename: str
    first_line: int = 1
    pushed: tuple[str, ...] = ()


class CellRunner(Protocol):
    """Runs source text in the engine's namespace; `fibernb.engine.cells.Cells` in a real engine."""

    namespace: dict[str, Any]

    def run(self, source: str, cell: CellContext, task: TaskId) -> Any: ...


class EngineContext:
    """The engine that this process is.

    Parameters
    ----------
    directory : the cluster's runtime directory.
    current_task : tells the task that runs now, 0 for none.
    """

    def __init__(
        self,
        *,
        directory: str,
        cells: CellRunner,
        current_task: Callable[[], TaskId],
        rank: Rank = 0,
        engine: EngineId = 0,
    ) -> None:
        self.rank = rank
        self.engine = engine
        self._directory = directory
        self.cells = cells
        self.cell: CellContext | None = None  # the one that runs, or ran last
        self._current_task = current_task

    @property
    def directory(self) -> Path:
        """The cluster's runtime directory."""
        return Path(self._directory)

    @property
    def task(self) -> TaskId:
        """The task that runs now, 0 for none."""
        return self._current_task()

    @property
    def size(self) -> int | None:
        """Number of seats of the cluster when the last cell began; None before any."""
        return None if self.cell is None else self.cell.size


_current: EngineContext | None = None


def current() -> EngineContext | None:
    """The engine that this process is, or None when it is not one."""
    return _current


def enter(context: EngineContext | None) -> None:
    """This process is that engine from now on."""
    global _current
    _current = context
