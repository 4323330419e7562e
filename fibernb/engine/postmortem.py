"""What an engine remembers of the last error of its user's code, for a debugger to look at."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType

from fibernb.model import TaskId


@dataclass(frozen=True)
class Kept:
    """An exception that a task raised, with its frames, which it does not hold itself any more.

    ``name`` is what people call the task: its function, or the file of its cell. ``at_s`` is the time of the clock.
    """

    task: TaskId
    name: str
    error: BaseException
    trace: TracebackType
    at_s: float


class Keeper:
    """Keeps one error, so the frames of one failed call at most, until the next one.

    Those of cells are always kept. Frames of a task, or of an actor's method, may hold references, and so keep objects
    and actors alive: they are kept when a notebook has asked for it by ``keeps_tasks``.
    """

    def __init__(self) -> None:
        self.keeps_tasks = False
        self.last: Kept | None = None

    def keep(self, task: TaskId, name: str, error: BaseException, trace: TracebackType) -> None:
        """This is the last error from now on."""
        self.last = Kept(task, name, error, trace, time.time())
