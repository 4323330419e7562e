"""How work comes in: functions, objects, calls, and what is refused at once because it can never run.

Clients submit again after every break what has not been answered, so everything here may come twice: what is known
already is left as it is.
"""

from __future__ import annotations

from typing import Final

from fibernb.core.board import Board
from fibernb.core.clients import Client
from fibernb.core.endings import died_with, drop_orphan, end_task, enqueue, fail_dependents, oversized, supply
from fibernb.core.feasible import impossible
from fibernb.core.holding import entry_of, hold_entry, missing
from fibernb.core.messages import DefineFunction, PutObjects, Remember, Submit, SubmitPinned
from fibernb.core.sending import send_begun
from fibernb.core.states import TaskState
from fibernb.core.streams import take_item
from fibernb.core.tasks import ANY_RANK, Group, Task, may_try_again, move_task
from fibernb.model import STREAMING, Call, EngineId, ObjectId, Outcome, Rank, Result, TaskId, TaskOptions, stream_of

_WAITING: Final = TaskState.WAITING
BEGUN: Final = "the actor is restarted, but this call may have begun, and its max_task_retries are used up"


def define_function(board: Board, client: Client, message: DefineFunction) -> None:
    function = board.functions.define(message.digest, message.code, message.name)
    if message.digest not in client.functions:
        client.functions.add(message.digest)
        function.users += 1


def put_objects(board: Board, client: Client, message: PutObjects) -> None:
    for result in message.objects:
        hold_entry(client, result.id, board.objects.entry(result.id))
        fail_dependents(board, supply(board, result, "put"))


def remember(board: Board, message: Remember) -> None:
    """Add a call to the namespace. One whose function is not known, or without arguments, is refused."""
    function = board.functions.by_digest.get(message.function)
    if function is None or not message.args or len(message.args) not in (1, len(message.ranks or ())):
        board.counts.refused += 1
        return
    function.users += 1
    for object_id in message.refs:
        entry_of(board, object_id).uses += 1
    for dropped in board.replay.remember(message):
        board.functions.drop(dropped.function)
        for object_id in dropped.refs:
            board.objects.use_no_more(object_id)


def submit(board: Board, client: Client, message: Submit) -> None:
    """Calls that may run anywhere."""
    group = board.group(client, message.function, message.options, message.parent)
    if group is None:
        _refuse_all(board, client, message, unknown_function(board, message.options))
        return
    problem = None if group.plain else impossible(board, message.options)
    group.live += 1  # it must not be dropped while we are at it
    if problem is not None:
        _refuse_all(board, client, message, problem)
    else:
        receive(board, group, message.calls, message.begun_on)
    release_group(board, group)


def release_group(board: Board, group: Group) -> None:
    """Let a group be dropped if it has no task, after all; it was counted as one more."""
    group.live -= 1
    if not group.live:
        board.drop_group(group)


def receive(board: Board, group: Group, calls: list[Call], begun_on: EngineId) -> None:
    """Take in calls of a message. ``begun_on``: the engine that their client has sent them to before, 0 for none. One
    that has still to tell a restarted hub what it has will tell of them, too.
    """
    if not begun_on or begun_on in board.recovering:
        accept(board, group, calls)
        return
    for call in calls:
        _accept_begun(board, group, call, begun_on)


def accept(board: Board, group: Group, calls: list[Call]) -> None:
    """Take in calls of a group; those that are known already belong to it from now on."""
    tasks, answers, orphans, now = board.tasks, board.answers, board.orphans, board.now
    fresh: list[Task] = []
    size = 0
    with_inputs = False
    for call in calls:
        id_ = call.id
        if id_ in tasks or id_ in answers or id_ in orphans:
            _hear_again(board, group, call)
            continue
        task = tasks[id_] = Task(id_, call, group, since=now)
        fresh.append(task)
        size += len(call.args)
        if call.deps or call.refs:
            task.state = _WAITING
            with_inputs = True
    if not fresh:
        return
    _count(board, group, fresh)
    if board.orphans:
        for task in fresh:
            _adopt_items(board, task)
    group.call_bytes = max(group.call_bytes, _call_bytes(board, fresh, size))
    if group.actor:
        board.actors[group.actor].calls.line_up(fresh)
    if with_inputs:
        _connect_all(board, group, fresh)
    else:
        board.queue_of(group).push_many(group, fresh)


def _accept_begun(board: Board, group: Group, call: Call, engine_id: EngineId) -> None:
    """A call that may have begun on an engine: it belongs to that one's line, and has shared its fate if it is gone."""
    engine = board.engines.get(engine_id)
    if call.id in board.tasks or call.id in board.answers or call.id in board.orphans:
        _hear_again(board, group, call)
    elif engine is not None and engine.actor == group.actor:
        task = board.tasks[call.id] = Task(call.id, call, group, since=board.now)
        _count(board, group, [task])
        send_begun(board, engine, task, board.now)
    else:
        _accept_lost(board, group, call, engine_id)


def _accept_lost(board: Board, group: Group, call: Call, engine_id: EngineId) -> None:
    """A call whose engine has ended, after it may have begun there."""
    task = Task(call.id, call, group)
    if may_try_again(task):
        accept(board, group, [call])
        board.tasks[call.id].attempts = 1
        return
    if group.actor:
        value = board.errors.actor_died(board.actors[group.actor].title, BEGUN)
    elif engine_id in board.ended:
        value = died_with(board, *board.ended[engine_id])
    else:
        value = board.errors.refused(f"{group.title} had been sent to an engine that has ended: call it again")
    answer_at_once(board, group.client, call.id, value, group.options, group.actor)


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
    _tie(group)
    for task in fresh:
        if task.state is TaskState.QUEUED:
            enqueue(board, task)
        else:
            connect(board, task)


def _tie(group: Group) -> None:
    """Calls of this group have inputs, or contain references."""
    group.with_inputs = group.tied = True


def connect(board: Board, task: Task) -> None:
    """Tie a waiting task to its inputs; it is queued if they are there, and fails if one of them has failed.

    What is only contained in its arguments it need not wait for.
    """
    deps = dict.fromkeys(task.call.deps)
    for object_id in dict.fromkeys(task.call.refs):
        if object_id not in deps:
            entry_of(board, object_id).uses += 1
    cause: Result | None = None
    for object_id in deps:
        known = missing(board, object_id) if object_id == task.id else None
        entry = entry_of(board, object_id, known)
        board.objects.need(object_id, entry, task)
        if entry.result is not None and entry.result.outcome:
            cause = cause or entry.result
    if cause is None and task.state is _WAITING and not task.blockers:
        cause = oversized(board, task)
    if cause is not None:
        end_task(board, task, Result(task.id, cause.value, cause.outcome))
    elif task.state is _WAITING and not task.blockers:
        move_task(task, TaskState.QUEUED)
        enqueue(board, task)


def _hear_again(board: Board, group: Group, call: Call, rank: Rank = ANY_RANK) -> None:
    """A call that is known already. A restarted hub may know it from an engine only; then its client takes it over."""
    orphan = board.orphans.pop(call.id, None)
    if orphan is not None:
        task = board.tasks[call.id] = Task(call.id, Call(call.id, b""), group, rank=rank)
        task.state = _WAITING
        _count(board, group, [task])
        _adopt_items(board, task)
        end_task(board, task, orphan.result, orphan.receipt)
        drop_orphan(board, orphan)
        return
    claimed = board.tasks.get(call.id)
    if claimed is not None and claimed.group is board.claimed:
        claimed.group.live -= 1
        claimed.group, claimed.call, claimed.rank = group, call, rank
        if call.deps or call.refs:
            _tie(group)
        _count(board, group, [claimed])
        connect(board, claimed)
        if claimed.id in board.tasks:
            _adopt_items(board, claimed)


def _adopt_items(board: Board, task: Task) -> None:
    """Items of a stream that came before its client did, after a restart of the hub."""
    if task.group.options.num_returns != STREAMING:
        return
    for object_id in sorted(id_ for id_ in board.orphans if stream_of(id_) == task.id):
        orphan = board.orphans.pop(object_id)
        take_item(board, None, task, orphan.result, orphan.receipt)
        drop_orphan(board, orphan)


def _refuse_all(board: Board, client: Client, message: Submit, value: bytes) -> None:
    for call in message.calls:
        if call.id not in board.answers:
            answer_at_once(board, client, call.id, value, message.options)


def answer_at_once(
    board: Board, client: Client, task_id: TaskId, value: bytes, options: TaskOptions, actor: ObjectId = 0
) -> None:
    """A call that cannot be accepted. ``actor``: whose call it is."""
    board.counts.failed += 1
    board.history.end_badly(task_id, options.name, TaskState.FAILED, actor, error=board.errors.told(value))
    for offset in range(max(1, options.num_returns)):
        board.answers[task_id + offset] = Result(task_id + offset, value, Outcome.ERROR)
        if offset:
            board.part_of[task_id + offset] = task_id
    client.put(board.answers[task_id])
    board.outgoing[client.id] = client


def unknown_function(board: Board, options: TaskOptions) -> bytes:
    """The error of calls whose function's code is not there."""
    name = options.name or "the function"
    return board.errors.refused(f"the code of {name} has not reached the cluster: call it again")


def submit_pinned(board: Board, client: Client, message: SubmitPinned) -> None:
    """One call on each of several ranks."""
    group = board.group(client, message.function, message.options, message.parent)
    problem = None if group is not None else unknown_function(board, message.options)
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
        release_group(board, group)


def _pin(board: Board, group: Group, call: Call, rank: Rank) -> None:
    if call.id in board.tasks or call.id in board.answers or call.id in board.orphans:
        _hear_again(board, group, call, rank)
        return
    seat = board.seats.get(rank)
    if seat is None or not 0 <= rank < board.scaling.seats:
        error = board.errors.no_such_rank(rank, board.scaling.seats)
        answer_at_once(board, group.client, call.id, error, group.options)
        return
    task = board.tasks[call.id] = Task(call.id, call, group, _WAITING, rank)
    _count(board, group, [task])
    seat.pinned.append(task)
    if call.deps:
        group.with_inputs = group.tied = True
    connect(board, task)
