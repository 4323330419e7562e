"""Which errors of its user's code an engine keeps for a debugger: see `fibernb.engine.postmortem`."""

from __future__ import annotations

from fibernb.engine import context, tracebacks
from fibernb.model import TaskId


def keep_error(task: TaskId, name: str, error: BaseException) -> None:
    """Keep what a call has raised, whether that is a cell's, a task's or a method's of an actor.

    It is not kept where no notebook could ask for it, or where no frame of the user's is in it.
    """
    engine = context.current()
    if engine is None or not (engine.errors.keeps_tasks or engine.cell_task == task):
        return
    trace = tracebacks.users_part(error.__traceback__)
    if trace is not None:
        engine.errors.keep(task, name, error, trace)


def forget_error() -> None:
    """Let go of the frames that are kept, and so of what they hold."""
    engine = context.current()
    if engine is not None:
        engine.errors.last = None
