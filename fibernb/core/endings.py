"""How tasks end, and what follows: the client is answered, dependents go on or fail, the parent's book is closed.

A value that stands in blocks or contains references is held by the client from here on, and its lineage is noted.

A task that fails takes its dependents along, with the same error value. That runs over a worklist, since chains may
be long.
"""

from __future__ import annotations

from typing import Final

from fibernb.core.board import Board, Orphan
from fibernb.core.clients import Client
from fibernb.core.events import EngineExited
from fibernb.core.holding import give, hold_entry, is_stored, keep, missing
from fibernb.core.lineage import not_made_again, record
from fibernb.core.receipts import Receipt
from fibernb.core.seats import Engine
from fibernb.core.states import TaskState
from fibernb.core.tasks import ANY_RANK, Task, move_task
from fibernb.model import Outcome, Result

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
        engine = board.engines.get(task.engine)
        told = board.errors.told(result.value)
        board.history.end_badly(task.id, task.group.title, task.state, task.group.actor, engine, told)
    else:
        move_task(task, _FINISHED)
        board.counts.finished += 1
    id_ = task.id
    group = task.group
    client = group.client
    del board.tasks[id_]
    if group.tied and client.silent:
        if group.actor:
            board.made[id_] = result
        return _end_silent(board, task, result, receipt)
    board.answers[id_] = result
    client.put(result, receipt)
    board.outgoing[client.id] = client
    group.live -= 1
    if group.tied or result.blocks or result.refs or id_ in board.children or id_ in board.objects.entries:
        return _settle_ties(board, task, result)
    if not group.live:
        board.drop_group(group)
    return []


def _end_silent(board: Board, task: Task, result: Result, receipt: Receipt | None) -> list[tuple[Task, Result]]:
    """End a task that has no client: that one has not come back yet, or has ended, or the value is made again.

    In the first case the result waits for the client, if an engine has told it; if not, the client will ask again.
    """
    group = task.group
    group.live -= 1
    if group is not board.claimed:
        return _settle_ties(board, task, result)
    if board.unsettled:
        if receipt is None:
            return []
        keep_orphan(board, result, receipt)
    failed: list[tuple[Task, Result]] = []
    for part in values(result):
        failed += supply(board, part)
    return failed


def keep_orphan(board: Board, result: Result, receipt: Receipt) -> None:
    """A result that nobody has asked for yet."""
    receipt.holders += 1
    board.orphans[result.id] = Orphan(result, receipt)
    for part in (result, *result.more):
        keep(board, part)


def drop_orphan(board: Board, orphan: Orphan) -> None:
    """Someone has asked for it, or nobody will."""
    board.settle(orphan.receipt)
    for part in (orphan.result, *orphan.result.more):
        board.objects.drop_value(part)


def _settle_ties(board: Board, task: Task, result: Result) -> list[tuple[Task, Result]]:
    """Close the books of a task that has inputs, children, a parent or several values, or whose value others need."""
    group = task.group
    if group.members is not None:
        del group.members[task.id]
    if not group.live:
        board.drop_group(group)
    if task.id in board.children:
        _hand_over_children(board, task)
    found = parts(task, result)
    if group.client.silent:
        _forget_parts(board, task)
    else:
        _answer_parts(board, group.client, found)
    failed = _publish(board, task, found)
    board.streams.pop(task.id, None)
    if task.call.deps or task.call.refs:
        board.objects.needed_no_more(task.call)
    return failed


def _answer_parts(board: Board, client: Client, found: list[Result]) -> None:
    for part in found:
        board.answers[part.id] = part
        if part.blocks or part.refs:
            hold_entry(client, part.id, board.objects.entry(part.id))


def _forget_parts(board: Board, task: Task) -> None:
    """Nobody will acknowledge the values of this task, unless it had answered before and was run again."""
    if task.id not in board.answers:
        for offset in range(1, task.group.options.num_returns):
            board.part_of.pop(task.id + offset, None)


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
    elif task.group.actor:
        board.calling[task.group.actor] = None  # it may have held up other calls


def parts(task: Task, result: Result) -> list[Result]:
    """The values of a task, each as an object of its own. One that the task did not give is missing at the end."""
    count = max(1, task.group.options.num_returns)
    if result.outcome:
        return [Result(task.id + offset, result.value, result.outcome) for offset in range(count)]
    return values(result)[:count]


def values(result: Result) -> list[Result]:
    """A result as one for each value."""
    if not result.more:
        return [result]
    return [Result(result.id, result.value, result.outcome, (), result.blocks, result.refs), *result.more]


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
    """Give a task's values to those that need them; returns the dependents that fail, with the reason."""
    failed: list[tuple[Task, Result]] = []
    for part in found:
        failed += supply(board, part, task.group.title)
    for offset in range(len(found), task.group.options.num_returns):
        failed += supply(board, missing(board, task.id + offset))
    record(board, task, found)
    for object_id in not_made_again(board, task):
        failure = Result(object_id, found[0].value, found[0].outcome) if found[0].outcome else missing(board, object_id)
        failed += supply(board, failure)
    return failed


def supply(board: Board, value: Result, maker: str = "") -> list[tuple[Task, Result]]:
    """An object has its value, from this maker; returns the tasks that fail for it, with the reason."""
    entry = board.objects.entries.get(value.id)
    if entry is None or (entry.result is not None and not entry.result.outcome):
        board.objects.discard(value)
        return []
    if is_stored(value):
        keep(board, value)
    entry.result, entry.lost, entry.maker = value, "", maker or entry.maker
    for client_id in entry.fetchers:
        give(board, client_id, value)
    entry.fetchers.clear()
    waiting = list(entry.waiting.values())
    entry.waiting.clear()
    if not entry.needed:
        board.objects.let_go(value.id)
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
    task.since = board.now
    if task.rank == ANY_RANK:
        board.queue_of(task.group).push(task)
    else:
        board.awake[task.rank] = None


def cancelled(board: Board, task: Task, reason: str = "it was cancelled", *, engine_replaced: bool = False) -> Result:
    """The answer of a task that was cancelled."""
    return Result(task.id, board.errors.cancelled(reason, engine_replaced), Outcome.CANCELLED)


def died_with(board: Board, engine: Engine, event: EngineExited) -> bytes:
    """The error of a call that ends with its engine."""
    evidence = "; ".join(part for part in (event.evidence, engine.doomed) if part)
    died = board.errors.out_of_memory if engine.short else board.errors.worker_died
    return died(engine.rank, engine.node, event.exit_code, event.last_output, evidence)
