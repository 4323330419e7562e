"""How work comes in: functions, objects, calls, and what is refused at once because it can never run.

Clients submit again after every break what has not been answered, so everything here may come twice: what is known
already is left as it is.
"""

from __future__ import annotations

from typing import Final

from fibernb.core.board import INTERNAL_CLIENT, Board
from fibernb.core.clients import Client
from fibernb.core.endings import end_task, enqueue, fail_dependents, missing, oversized, supply
from fibernb.core.messages import DefineFunction, PutObjects, Release, Remember, Submit, SubmitPinned
from fibernb.core.nodes import describe, largest
from fibernb.core.states import TaskState
from fibernb.core.tasks import ANY_RANK, Group, Task, move_task
from fibernb.model import Call, ObjectId, Outcome, Rank, Resources, Result, TaskId, TaskOptions

_WAITING: Final = TaskState.WAITING


def define_function(board: Board, client: Client, message: DefineFunction) -> None:
    function = board.functions.define(message.digest, message.code, message.name)
    if message.digest not in client.functions:
        client.functions.add(message.digest)
        function.users += 1


def put_objects(board: Board, client: Client, message: PutObjects) -> None:
    for result in message.objects:
        client.objects.add(result.id)
        failed = supply(board, result)
        board.objects.put(result)
        fail_dependents(board, failed)


def release(board: Board, client: Client, message: Release) -> None:
    for object_id in message.objects:
        if object_id in client.objects:
            client.objects.remove(object_id)
            board.objects.release(object_id)


def remember(board: Board, message: Remember) -> None:
    """Add a call to the namespace. One whose function is not known, or without arguments, is refused."""
    function = board.functions.by_digest.get(message.function)
    if function is None or not message.args or len(message.args) not in (1, len(message.ranks or ())):
        board.counts.refused += 1
        return
    function.users += 1
    for dropped in board.replay.remember(message):
        board.functions.drop(dropped.function)


def submit(board: Board, client: Client, message: Submit) -> None:
    """Calls that may run anywhere."""
    group = board.group(client, message.function, message.options, message.parent)
    if group is None:
        _refuse_all(board, client, message, _unknown_function(board, message.options))
        return
    problem = None if group.plain else _infeasible(board, message.options.resources)
    group.live += 1  # it must not be dropped while we are at it
    if problem is not None:
        _refuse_all(board, client, message, problem)
    else:
        _accept(board, group, message.calls)
    _let_go(board, group)


def _let_go(board: Board, group: Group) -> None:
    group.live -= 1
    if not group.live:
        board.drop_group(group)


def _accept(board: Board, group: Group, calls: list[Call]) -> None:
    tasks, answers, orphans = board.tasks, board.answers, board.orphans
    fresh: list[Task] = []
    size = 0
    with_inputs = False
    for call in calls:
        id_ = call.id
        if id_ in tasks or id_ in answers or id_ in orphans:
            _hear_again(board, group, call)
            continue
        task = tasks[id_] = Task(id_, call, group)
        fresh.append(task)
        size += len(call.args)
        if call.deps:
            task.state = _WAITING
            with_inputs = True
    if not fresh:
        return
    _count(board, group, fresh)
    group.call_bytes = max(group.call_bytes, _call_bytes(board, fresh, size))
    if with_inputs:
        _connect_all(board, group, fresh)
    else:
        board.queue_of(group).push_many(group, fresh)


def _call_bytes(board: Board, fresh: list[Task], size: int) -> int:
    """The size to reckon with for each of the new calls: the average, or the largest where one alone may matter."""
    if size <= board.settings.max_batch_bytes:
        return size // len(fresh)
    return max(len(task.call.args) for task in fresh)


def _count(board: Board, group: Group, fresh: list[Task]) -> None:
    """Enter new tasks into their group's books."""
    group.live += len(fresh)
    if group.members is not None:
        group.members.update((task.id, task) for task in fresh)
    for offset in range(1, group.options.num_returns):
        board.part_of.update((task.id + offset, task.id) for task in fresh)


def _connect_all(board: Board, group: Group, fresh: list[Task]) -> None:
    group.with_inputs = group.tied = True
    for task in fresh:
        if task.state is TaskState.QUEUED:
            enqueue(board, task)
        else:
            connect(board, task)


def connect(board: Board, task: Task) -> None:
    """Tie a waiting task to its inputs; it is queued if they are there, and fails if one of them has failed."""
    cause: Result | None = None
    for object_id in dict.fromkeys(task.call.deps):
        known = missing(board, object_id) if object_id == task.id else _value(board, object_id)
        entry = board.objects.need(object_id, task, known)
        if entry.result is not None and entry.result.outcome:
            cause = cause or entry.result
    if cause is None and task.state is _WAITING and not task.blockers:
        cause = oversized(board, task)
    if cause is not None:
        end_task(board, task, Result(task.id, cause.value, cause.outcome))
    elif task.state is _WAITING and not task.blockers:
        move_task(task, TaskState.QUEUED)
        enqueue(board, task)


def _value(board: Board, object_id: ObjectId) -> Result | None:
    """What is known of an object that has no entry: its value, that it is to come (None), or that it is nowhere."""
    known = board.answers.get(object_id)
    if known is not None or object_id in board.tasks or object_id in board.part_of or board.unsettled:
        return known
    return missing(board, object_id)


def _hear_again(board: Board, group: Group, call: Call, rank: Rank = ANY_RANK) -> None:
    """A call that is known already. A restarted hub may know it from an engine only; then its client takes it over."""
    orphan = board.orphans.pop(call.id, None)
    if orphan is not None:
        task = board.tasks[call.id] = Task(call.id, Call(call.id, b""), group, rank=rank)
        task.state = _WAITING
        _count(board, group, [task])
        end_task(board, task, orphan.result, orphan.receipt)
        board.settle(orphan.receipt)
        return
    claimed = board.tasks.get(call.id)
    if claimed is not None and claimed.group.client.id == INTERNAL_CLIENT:
        claimed.group.live -= 1
        claimed.group, claimed.call, claimed.rank = group, call, rank
        if call.deps:
            group.with_inputs = group.tied = True
        _count(board, group, [claimed])
        connect(board, claimed)


def _refuse_all(board: Board, client: Client, message: Submit, value: bytes) -> None:
    for call in message.calls:
        if call.id not in board.answers:
            answer_at_once(board, client, call.id, value, message.options)


def answer_at_once(board: Board, client: Client, task_id: TaskId, value: bytes, options: TaskOptions) -> None:
    """A call that cannot be accepted."""
    board.counts.failed += 1
    for offset in range(max(1, options.num_returns)):
        board.answers[task_id + offset] = Result(task_id + offset, value, Outcome.ERROR)
        if offset:
            board.part_of[task_id + offset] = task_id
    client.put(board.answers[task_id])
    board.outgoing[client.id] = client


def _unknown_function(board: Board, options: TaskOptions) -> bytes:
    name = options.name or "the function"
    return board.errors.refused(f"the code of {name} has not reached the cluster: call it again")


def _infeasible(board: Board, asked: Resources) -> bytes | None:
    """An error if no node could ever run such a task; None while that is not known."""
    seats = max(board.scaling.seats, board.scaling.maximum or 0)
    if not seats or not board.nodes or any(node.could_fit(asked, seats) for node in board.nodes.values()):
        return None
    return board.errors.unschedulable(describe(asked), largest(board.nodes.values(), seats))


def submit_pinned(board: Board, client: Client, message: SubmitPinned) -> None:
    """One call on each of several ranks."""
    group = board.group(client, message.function, message.options, message.parent)
    problem = None if group is not None else _unknown_function(board, message.options)
    if len(message.args) not in (1, len(message.ranks)):
        problem = board.errors.refused(f"{len(message.args)} arguments were given for {len(message.ranks)} ranks")
    if group is not None:
        group.live += 1
    for offset, rank in enumerate(message.ranks):
        args = message.args[offset % len(message.args)] if message.args else b""
        call = Call(message.first + offset, args, message.deps)
        if group is None or problem is not None:
            answer_at_once(board, client, call.id, problem or b"", message.options)
        else:
            _pin(board, group, call, rank)
    if group is not None:
        _let_go(board, group)


def _pin(board: Board, group: Group, call: Call, rank: Rank) -> None:
    if call.id in board.tasks or call.id in board.answers or call.id in board.orphans:
        _hear_again(board, group, call, rank)
        return
    seat = board.seats.get(rank)
    if seat is None or not rank < board.scaling.seats:
        error = board.errors.no_such_rank(rank, board.scaling.seats)
        answer_at_once(board, group.client, call.id, error, group.options)
        return
    task = board.tasks[call.id] = Task(call.id, call, group, _WAITING, rank)
    _count(board, group, [task])
    seat.pinned.append(task)
    if call.deps:
        group.with_inputs = group.tied = True
    connect(board, task)
