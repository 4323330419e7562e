"""What engines say: results, signs of life, calls given back, and what tasks say to their clients."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from fibernb.core.board import Board
from fibernb.core.endings import cancelled, end_task, enqueue, keep_orphan, withdraw
from fibernb.core.functions import Function, smoothed
from fibernb.core.leasing import end_pauses, give_back
from fibernb.core.messages import Done, Ran, Recalled, Said, Started
from fibernb.core.receipts import Receipt
from fibernb.core.remaking import lose_blocks, wait_for_inputs
from fibernb.core.seats import Engine, Seat
from fibernb.core.states import SeatState, TaskState
from fibernb.core.streams import streaming_task, take_item
from fibernb.core.tasks import ANY_RANK, Group, Task, may_try_again, move_task
from fibernb.model import ObjectId, Outcome, Result, TaskId, client_of, rank_name

_SENT: Final = TaskState.SENT
_RUNNING: Final = TaskState.RUNNING
_IDLE: Final = SeatState.IDLE
_BUSY: Final = SeatState.BUSY


def take_done(board: Board, engine: Engine, done: Done, now: float) -> None:
    """Results, in the order of running. A message that has come before is ignored."""
    if done.sequence <= engine.receipts.last:
        board.counts.refused += 1
        return
    receipt = engine.receipts.add(done.sequence)
    line, tasks = engine.line, board.tasks
    length = len(line)
    functions: dict[Function, None] = {}
    failed: list[TaskId] = []
    others: set[ObjectId] = set()  # what came of no call of the line
    group: Group | None = None
    since = 0.0  # when the first one came
    for result in done.results:
        if line and line[0].id == result.id:
            task = line.popleft()
        elif (found := _from_elsewhere(board, engine, result, receipt)) is not None:
            task = found
        else:
            others.add(result.id)
            continue
        if tasks.get(result.id) is not task:
            _take_unasked(board, engine, task, result)
            continue
        if task.group is not group:
            since = task.since if group is None else since
            group = task.group
            functions[group.function] = None
        if result.outcome:
            _take_result(board, task, result, receipt)
            failed.append(result.id)
        else:
            end_task(board, task, result, receipt)
    if group is not None:
        waited_s = max(0.0, now - done.run_s - since) if since else 0.0
        _learn(board, engine, functions, group.title, done, others, failed, waited_s)
    if engine.actor:
        _measure_actor(board, engine, done)
    engine.since = now
    _close(board, engine, receipt)
    line_advanced(board, engine, length, now)


def _close(board: Board, engine: Engine, receipt: Receipt) -> None:
    """A message has been taken in; the engine may forget it if nobody holds on to its results."""
    if not receipt.holders and engine.receipts.advance():
        board.may_forget(engine.id)


def _from_elsewhere(board: Board, engine: Engine, result: Result, receipt: Receipt) -> Task | None:
    """Deal with a result that is not that of the first task of the line; returns its task if it is in the line."""
    stream = streaming_task(board, result.id)
    if stream is not None:
        take_item(board, engine, stream, result, receipt)
        return None
    task = _from_the_middle(engine, result.id)
    if task is None:
        _take_stray(board, result, receipt)
    return task


def _learn(
    board: Board,
    engine: Engine,
    functions: dict[Function, None],
    title: str,
    done: Done,
    others: set[ObjectId],
    failed: list[TaskId],
    waited_s: float,
) -> None:
    """Learn how long calls take, and note that they ran. ``title``: of the last one; ``waited_s``: the first one."""
    results = [result for result in done.results if result.id not in others] if others else done.results
    for function in functions:
        function.measured(done.run_s / len(results))
    engine.productive = True
    board.history.add(engine, title, done, results, failed, waited_s)


def _measure_actor(board: Board, engine: Engine, done: Done) -> None:
    """Learn how long the calls of an actor take; and it may have room for more of them."""
    actor = board.actors[engine.actor]
    actor.run_s = smoothed(actor.run_s, done.run_s / max(1, len(done.results)))
    board.calling[actor.id] = None


def _from_the_middle(engine: Engine, task_id: int) -> Task | None:
    """A task of the line that is not its first. The engine has passed over the gravestones before it."""
    for index, task in enumerate(engine.line):
        if task.id == task_id:
            passed = [engine.line.popleft() for _ in range(index)]
            engine.line.popleft()
            engine.line.extendleft(task for task in reversed(passed) if task.state < TaskState.FINISHED)
            return task
    return None


def _take_result(board: Board, task: Task, result: Result, receipt: Receipt) -> None:
    group = task.group
    if result.outcome <= Outcome.CANCELLED:
        end_task(board, task, result, receipt)
    elif group is board.claimed:
        end_task(board, task, Result(task.id, result.value, Outcome.ERROR))  # its client will submit it again
    elif task.cancelling:
        end_task(board, task, cancelled(board, task))
    elif result.outcome is Outcome.LOST:
        _find_inputs_lost(board, task, result)
    elif may_try_again(task):
        discard(board, result)
        task.attempts += 1
        move_task(task, TaskState.QUEUED)
        enqueue(board, task)
    else:
        end_task(board, task, Result(task.id, result.value, Outcome.ERROR, (), result.blocks, result.refs), receipt)


def _find_inputs_lost(board: Board, task: Task, result: Result) -> None:
    """A task could not begin, since blocks of its inputs were gone. It waits until they are made again.

    What stands in its arguments, rather than being an input, cannot be made again; and if all of its inputs are there
    for us, the engine may not find them for ever.
    """
    lost = lose_blocks(board, result.blocks)
    inside = sorted(lost.intersection(task.call.refs).difference(task.call.deps))
    if inside or not (lost or may_try_again(task)):
        error = board.errors.object_lost((inside or [task.id])[0], "arguments of the call are gone: call it again")
        end_task(board, task, Result(task.id, error, Outcome.ERROR))
        return
    task.attempts += not lost
    move_task(task, TaskState.LOST)
    come_back(board, task)


def come_back(board: Board, task: Task) -> None:
    """A task has left its engine, and is to run again as soon as it has its inputs, some of which may be lost."""
    seat = board.seats.get(task.rank) if task.rank != ANY_RANK else None
    if seat is not None:
        seat.pinned.appendleft(task)
    if wait_for_inputs(board, task):
        move_task(task, TaskState.WAITING)
    else:
        move_task(task, TaskState.QUEUED)
        enqueue(board, task)


def _take_stray(board: Board, result: Result, receipt: Receipt) -> None:
    """A result of a task that this engine is not known to have. After a restart of the hub, that is news."""
    task = board.tasks.get(result.id)
    if result.outcome > Outcome.CANCELLED or result.id in board.actors:
        return
    if task is not None and task.state <= TaskState.QUEUED:
        if result.outcome is Outcome.OK:
            withdraw(board, task)
        end_task(board, task, result, receipt)
    elif task is None and board.unsettled and result.id not in board.orphans and result.id not in board.answers:
        keep_orphan(board, result, receipt)
    else:
        discard(board, result)


def discard(board: Board, result: Result) -> None:
    """Nobody needs this result."""
    if result.outcome is not Outcome.LOST:
        for part in (result, *result.more):
            board.objects.discard(part)


def _take_unasked(board: Board, engine: Engine, task: Task, result: Result) -> None:
    """The answer of a gravestone, or of a call that makes up the namespace."""
    discard(board, result)
    if task.state >= TaskState.FINISHED:
        return
    move_task(task, TaskState.FINISHED if result.outcome is Outcome.OK else TaskState.FAILED)
    engine.replaying -= 1
    if result.outcome is not Outcome.OK:
        board.problems["replay"] = f"a part of the namespace could not be restored on {rank_name(engine.rank)}"
        board.seats_changed = True


def line_advanced(board: Board, engine: Engine, length: int, now: float) -> None:
    """Calls have left a line that had ``length`` of them."""
    line = engine.line
    if engine.blocked:
        end_pauses(board, engine, engine.blocked.keys() - {task.id for task in line})
    if line:
        if line[0].state is _SENT:
            move_task(line[0], _RUNNING)
        engine.line_s *= len(line) / length
        if not engine.alone and not engine.actor:
            board.hungry[engine.id] = engine
        return
    engine.line_s = 0.0
    engine.alone = False
    engine.adopted_from = math.inf
    board.hungry.pop(engine.id, None)
    if engine.lease is not None:
        give_back(board, engine)
    seat = board.seats[engine.rank]
    if seat.state is _BUSY:
        _rest(board, engine, seat, now)
    if seat.pinned:
        board.awake[seat.rank] = None


def _rest(board: Board, engine: Engine, seat: Seat, now: float) -> None:
    """A seat has nothing to do; its engine goes if it has run a function as often as it may."""
    if engine.worn:
        board.move_seat(seat, SeatState.DRAINING, now)
        board.draining[seat.rank] = None
    else:
        board.move_seat(seat, _IDLE, now)


def take_ran(board: Board, engine: Engine, message: Ran, now: float) -> None:
    """Calls that clients have sent to the engine themselves are done. A seat that runs some is in use."""
    seat = board.seats[engine.rank]
    if seat.state is _IDLE:
        seat.since = now
    if message.tasks:
        board.counts.finished += len(message.tasks)
        board.history.add_direct(engine, message)
        engine.productive = True


def take_started(engine: Engine, message: Started, now: float) -> None:
    """A sign of life."""
    if engine.started < message.position < engine.next_position:
        engine.started = message.position
        engine.since = now


def take_recalled(board: Board, engine: Engine, message: Recalled, now: float) -> None:
    """Calls that the engine will not run: they are queued again, in their order, before all others of their groups.

    If it gives back fewer than it was asked for, it has begun all before them.
    """
    if message.position > engine.recall_from:
        engine.started = max(engine.started, min(message.position, engine.recall_until) - 1)
    engine.recall_until = 0
    engine.answered_at = now
    if board.seats[engine.rank].pinned:
        board.awake[engine.rank] = None
    length = len(engine.line)
    back = [task for task in engine.line if message.position <= task.position < message.until]
    if not back:
        return
    engine.line = deque(task for task in engine.line if not message.position <= task.position < message.until)
    for task in reversed(back):
        if task.state >= TaskState.FINISHED:
            continue
        if task.call.deps and wait_for_inputs(board, task):
            move_task(task, TaskState.LOST)
            move_task(task, TaskState.WAITING)
        else:
            move_task(task, TaskState.QUEUED)
            board.queue_of(task.group).push_front(task)
    line_advanced(board, engine, length, now)


def take_said(board: Board, message: Said) -> None:
    """What a task says goes to its client; what an engine says by itself goes to all that are attached."""
    if not message.task:
        for user in board.users():
            if user.attached:
                board.tell_client(user, message)
        return
    client = board.clients.get(client_of(message.task))
    if client is None:
        return
    if client.attached:
        board.tell_client(client, message)
    else:
        client.keep_for_later(message, board.settings)
