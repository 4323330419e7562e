"""How tasks end, and what follows: the client is answered, dependents go on or fail, the parent's book is closed.

A task that fails takes its dependents along, with the same error value. That runs over a worklist, since chains may
be long.
"""

from __future__ import annotations

from typing import Final

from fibernb.core.board import INTERNAL_CLIENT, Board, Orphan
from fibernb.core.receipts import Receipt
from fibernb.core.states import TaskState
from fibernb.core.tasks import ANY_RANK, Task, move_task
from fibernb.model import ObjectId, Outcome, Result

_FINISHED: Final = TaskState.FINISHED
_ENDS: Final = {
    Outcome.OK: TaskState.FINISHED,
    Outcome.ERROR: TaskState.FAILED,
    Outcome.CANCELLED: TaskState.CANCELLED,
}


def end_task(board: Board, task: Task, result: Result, receipt: Receipt | None = None) -> None:
    """A task has its result. ``receipt``: of the message that brought it."""
    failed = _end_one(board, task, result, receipt)
    if failed:
        fail_dependents(board, failed)


def fail_dependents(board: Board, failed: list[tuple[Task, Result]]) -> None:
    """End tasks whose inputs have failed, each with the error of the input, and those that depend on them in turn."""
    while failed:
        task, cause = failed.pop()
        if task.id in board.tasks:
            failed += _end_one(board, task, Result(task.id, cause.value, cause.outcome), None)


def _end_one(board: Board, task: Task, result: Result, receipt: Receipt | None) -> list[tuple[Task, Result]]:
    """End one task; returns the dependents that fail with it, with the reason."""
    if result.outcome:
        withdraw(board, task)
        move_task(task, _ENDS[result.outcome])
        board.counts.failed += 1
    else:
        move_task(task, _FINISHED)
        board.counts.finished += 1
    id_ = task.id
    group = task.group
    client = group.client
    del board.tasks[id_]
    if group.tied and client.id == INTERNAL_CLIENT:
        return _end_claimed(board, task, result, receipt)
    board.answers[id_] = result
    client.put(result, receipt)
    board.outgoing[client.id] = client
    group.live -= 1
    if group.tied or id_ in board.children or id_ in board.objects.entries:
        return _settle_ties(board, task, result)
    if not group.live:
        board.drop_group(group)
    return []


def _end_claimed(board: Board, task: Task, result: Result, receipt: Receipt | None) -> list[tuple[Task, Result]]:
    """A task has ended whose client has not come back yet: its result waits for that, if an engine has told it."""
    task.group.live -= 1
    if receipt is not None:
        receipt.holders += 1
        board.orphans[task.id] = Orphan(result, receipt)
    return []


def _settle_ties(board: Board, task: Task, result: Result) -> list[tuple[Task, Result]]:
    """Close the books of a task that has inputs, children, a parent or several values, or whose value is waited for."""
    group = task.group
    if group.members is not None:
        del group.members[task.id]
    if not group.live:
        board.drop_group(group)
    if task.id in board.children:
        _hand_over_children(board, task)
    if task.call.deps:
        board.objects.needed_no_more(task.call)
    found = parts(task, result)
    board.answers.update((part.id, part) for part in found)
    return _publish(board, task, found)


def withdraw(board: Board, task: Task) -> None:
    """Take a task that has not been sent out of the queue that it waits in. For one that fails this is done anyway."""
    if task.rank != ANY_RANK and task.state <= TaskState.QUEUED:
        seat = board.seats.get(task.rank)
        if seat is not None and task in seat.pinned:
            seat.pinned.remove(task)
            board.awake[task.rank] = None
    elif task.state is TaskState.QUEUED:
        board.queue_of(task.group).withdrawn()
        board.stale[task.group] = None


def parts(task: Task, result: Result) -> list[Result]:
    """The values of a task, each as an object of its own. One that the task did not give is missing at the end."""
    count = max(1, task.group.options.num_returns)
    if result.outcome:
        return [Result(task.id + offset, result.value, result.outcome) for offset in range(count)]
    values = (result.value, *result.more[: count - 1])
    return [Result(task.id + offset, value) for offset, value in enumerate(values)]


def _hand_over_children(board: Board, task: Task) -> None:
    """What a task submitted goes on under the task's own parent, so that cancelling that one still reaches it."""
    groups = board.children.pop(task.id)
    grandparent = task.group.parent
    for group in groups:
        board.groups.pop(group.key, None)
        group.parent = grandparent
    if grandparent is not None:
        board.children.setdefault(grandparent, {}).update(groups)


def _publish(board: Board, task: Task, found: list[Result]) -> list[tuple[Task, Result]]:
    """Give a task's values to those that wait for them; returns the dependents that fail, with the reason."""
    failed: list[tuple[Task, Result]] = []
    if board.objects.entries:
        missed = range(len(found), task.group.options.num_returns)
        for part in [*found, *(missing(board, task.id + offset) for offset in missed)]:
            failed += supply(board, part)
    return failed


def missing(board: Board, object_id: ObjectId) -> Result:
    """What stands for an object that is not there."""
    return Result(object_id, board.errors.unknown_object(object_id), Outcome.ERROR)


def supply(board: Board, value: Result) -> list[tuple[Task, Result]]:
    """An object has its value; returns the tasks that fail for it, with the reason."""
    entry = board.objects.entries.get(value.id)
    if entry is None or not entry.waiting:
        return []
    waiting = board.objects.fulfil(entry, value)
    if value.outcome:
        return [(task, value) for task in waiting]
    return [(task, problem) for task in waiting if (problem := unblock(board, task)) is not None]


def unblock(board: Board, task: Task) -> Result | None:
    """One input of a task is there; returns why the task fails, if it does, now that it has all of them."""
    task.blockers -= 1
    if task.state is not TaskState.WAITING or task.blockers:
        return None
    problem = oversized(board, task)
    if problem is None:
        move_task(task, TaskState.QUEUED)
        enqueue(board, task)
    return problem


def oversized(board: Board, task: Task) -> Result | None:
    """The failure of a task that no message could carry along with its inputs, which are all there."""
    call, limit = task.call, board.settings.max_call_bytes
    size = len(call.args) + board.objects.size_bytes(dict.fromkeys(call.deps))
    return Result(task.id, board.errors.too_large(size, limit), Outcome.ERROR) if size > limit else None


def enqueue(board: Board, task: Task) -> None:
    """A queued task goes where it will be taken from. A pinned one has its place already."""
    if task.rank == ANY_RANK:
        board.queue_of(task.group).push(task)
    else:
        board.awake[task.rank] = None


def cancelled(board: Board, task: Task, reason: str = "it was cancelled") -> Result:
    return Result(task.id, board.errors.cancelled(reason), Outcome.CANCELLED)
