"""How values are lost, and made again.

A value is lost when its store ends, or when someone finds that its blocks are gone; one that is only needed for the
lineage of others counts as lost as well, once nobody holds it. It is made again when it is needed, from its lineage,
and so are lost inputs of that, as often as the retries of each call allow. What was put, or made by an actor or on a
certain rank, or from a call without retries, cannot be made again.
"""

from __future__ import annotations

from collections.abc import Callable

from fibernb.core.board import INTERNAL_CLIENT, Board
from fibernb.core.clients import Client
from fibernb.core.endings import fail_dependents, supply
from fibernb.core.events import StoreLost
from fibernb.core.holding import entry_of, give, hold_entry
from fibernb.core.messages import Fetch
from fibernb.core.objects import Lineage
from fibernb.core.states import TaskState
from fibernb.core.submitting import connect
from fibernb.core.tasks import ANY_RANK, Group, Task, move_task
from fibernb.model import COUNTER_BITS, BlockId, ObjectId, Outcome, Result

GONE = "its memory is gone"


# ---- losing ----------------------------------------------------------------------------------------------


def store_lost(board: Board, event: StoreLost) -> None:
    """All blocks of a store are gone."""
    _lose(board, lambda block: block >> COUNTER_BITS == event.generation, f"the object store ended: {event.reason}")


def lose_blocks(board: Board, blocks: tuple[BlockId, ...] | list[BlockId]) -> set[ObjectId]:
    """Someone has found these blocks to be gone. Returns the objects that are lost with them."""
    gone = set(blocks)
    return _lose(board, lambda block: block in gone, GONE)


def _lose(board: Board, gone: Callable[[BlockId], bool], reason: str) -> set[ObjectId]:
    objects = board.objects
    lost = {
        object_id
        for object_id, entry in objects.entries.items()
        if entry.result is not None and any(map(gone, entry.result.blocks))
    }
    contained = [part for object_id in lost for part in objects.lose(objects.entries[object_id], reason)]
    if lost:
        _wait_again(board, lost)
    for object_id in contained:
        objects.let_go(object_id)
    return lost


def _wait_again(board: Board, lost: set[ObjectId]) -> None:
    """Tasks that have not been sent wait for these inputs once more."""
    for task in board.tasks.values():
        if task.state <= TaskState.QUEUED and not lost.isdisjoint(task.call.deps):
            wait_for_inputs(board, task)
            if task.state is TaskState.QUEUED:
                move_task(task, TaskState.WAITING)
                task.engine = 0  # it has not left its queue
                if task.rank == ANY_RANK:
                    board.queue_of(task.group).withdrawn()
                    board.queue_of(task.group).sweep(task.group)


def wait_for_inputs(board: Board, task: Task) -> bool:
    """Let a task that is not with an engine (any more) wait for the inputs that it lacks; whether it lacks any."""
    for object_id in dict.fromkeys(task.call.deps):
        board.objects.wait(object_id, board.objects.entries[object_id], task)
    return task.blockers > 0


# ---- making again ----------------------------------------------------------------------------------------


def make_wanted(board: Board) -> None:
    """Make again what is needed and was lost; that may need more of the kind."""
    while board.objects.wanted:
        object_id, _ = board.objects.wanted.popitem()
        entry = board.objects.entries.get(object_id)
        if entry is None or entry.result is not None:
            continue
        lineage = entry.lineage
        if lineage is not None and lineage.call.id in board.tasks:
            continue  # it is being made
        if lineage is not None and lineage.may_run():
            _run_again(board, lineage)
        else:
            error = board.errors.object_lost(object_id, _why(entry.lost, lineage))
            fail_dependents(board, supply(board, Result(object_id, error, Outcome.ERROR)))


def _why(lost: str, lineage: Lineage | None) -> str:
    if lineage is None:
        reasons = "it was put, made by an actor, may not be retried, or was made before the hub was restarted"
        return f"{lost}, and it cannot be made again, since {reasons}"
    return f"{lost}, and it has been made again as often as its max_retries allow ({lineage.options.max_retries})"


def _run_again(board: Board, lineage: Lineage) -> None:
    lineage.attempts += 1
    key = (INTERNAL_CLIENT, lineage.function.digest, None, b"", 0)
    group = Group(key, board.internal, lineage.function, lineage.options, None)
    group.live = 1
    group.with_inputs = bool(lineage.call.deps)
    group.call_bytes = max(1, len(lineage.call.args))
    task = Task(lineage.call.id, lineage.call, group, TaskState.WAITING, attempts=lineage.attempts)
    board.tasks[task.id] = task
    connect(board, task)


def fetch(board: Board, client: Client, message: Fetch) -> None:
    """The client wants these values, each as soon as it is there."""
    if message.lost:
        lose_blocks(board, message.lost)
    for object_id in message.objects:
        entry = entry_of(board, object_id)
        hold_entry(client, object_id, entry)
        if entry.result is not None:
            give(board, client.id, entry.result)
            continue
        entry.fetchers[client.id] = None
        if entry.lost:
            board.objects.wanted[object_id] = None
