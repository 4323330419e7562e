"""How values that can be lost were made, so that they can be made again."""

from __future__ import annotations

from fibernb.core.board import Board
from fibernb.core.holding import is_stored
from fibernb.core.objects import Lineage
from fibernb.core.tasks import ANY_RANK, Task
from fibernb.model import ObjectId, Result


def record(board: Board, task: Task, found: list[Result]) -> None:
    """Note how these values of a task were made, where that is worth it. The task's inputs are in use still."""
    objects = board.objects
    lineage = objects.lineages.get(task.id)
    if lineage is not None:
        lineage.attempts = task.attempts
    elif not any(map(is_stored, found)) or not _repeatable(task):
        return
    for part in found:
        entry = objects.entries.get(part.id)
        if entry is None or entry.result is not part or not is_stored(part):
            continue
        if lineage is None:
            lineage = Lineage(task.call, task.group.function, task.group.options, task.attempts)
            objects.originate(lineage)
        entry.lineage = lineage
        lineage.outputs.add(part.id)
    objects.trim(board.settings.max_lineage_bytes)


def _repeatable(task: Task) -> bool:
    """Whether a task may be run again after its end: it did not depend on where it ran, and its arguments are known."""
    options = task.group.options
    return task.rank == ANY_RANK and not task.group.actor and bool(options.max_retries and task.call.args)


def not_made_again(board: Board, task: Task) -> list[ObjectId]:
    """Values that a task made when it ran before, and not now."""
    lineage = board.objects.lineages.get(task.id)
    outputs = () if lineage is None else sorted(lineage.outputs)
    return [object_id for object_id in outputs if board.objects.entries[object_id].result is None]
