"""What code that runs on an engine can know of it: its rank, its cell, and where to say things."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Protocol

from fibernb.engine.postmortem import Keeper
from fibernb.model import EngineId, ObjectId, Rank, Resources, Struct, TaskId
from fibernb.serialize import Source

name_of_call: Final[ContextVar[str]] = ContextVar("name_of_call", default="")
"""The function's name where calls run beside each other."""


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

    ``settle`` is set by who keeps references in this process: it returns when the hub knows of all that are held and of
    everything that was submitted. So are ``send_calls``, which sends what was submitted, and ``sent``, whose value
    changes with each message that is sent or waits to be. ``actor`` is the one that lives
    here, 0 for none.
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
        self.cell_task: TaskId = 0  # that runs it, or ran it last, as one rank of several; not an item's
        self.on_cell_end: Callable[[], object] | None = None  # set by who has something for the time of the cell
        self.settle: Callable[[], object] | None = None
        self.send_calls: Callable[[], object] | None = None
        self.sent: Callable[[], object] | None = None
        self.actor: ObjectId = 0
        self.actor_name = ""
        self.one_by_one = False  # the actor runs its calls, and what runs now is all that it can run
        self.actor_about = b""  # what a handle of it needs to know, pickled
        self.namespace = ""  # of the actor
        self.placement: ObjectId = 0  # the placement group that the calls run in,
        self.captures = False  # and what they start as well
        self.was_restarted = False  # the actor
        self.gpus: tuple[int, ...] = ()  # that the calls which run may use
        self.resources = Resources()  # that they were given
        self.environment = ""  # JSON of the runtime environment
        self.node = ""
        self.paths: tuple[str, ...] = ()  # of the environment, which stay first on sys.path
        self.has_own_directory = False  # of the environment, to work in
        self.name_of_calls = ""  # that run one by one
        self.errors = Keeper()
        self.names_from: Source | None = None  # where large values come from that are set as names, to be changed
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
    def task_name(self) -> str:
        """What people call the function of the task that runs now."""
        return name_of_call.get() or self.name_of_calls

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
