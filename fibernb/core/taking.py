"""What engines say: results, signs of life, calls given back, and what tasks say to their clients."""

from __future__ import annotations

from collections import deque
from typing import Final

from fibernb.core.board import Board, Orphan
from fibernb.core.endings import end_task, enqueue, withdraw
from fibernb.core.functions import Function
from fibernb.core.messages import Done, Recalled, Said, Started
from fibernb.core.receipts import Receipt
from fibernb.core.seats import Engine
from fibernb.core.states import SeatState, TaskState
from fibernb.core.tasks import Task, may_try_again, move_task
from fibernb.model import Outcome, Result, client_of

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
    function: Function | None = None
    for result in done.results:
        if line and line[0].id == result.id:
            task = line.popleft()
        elif (found := _from_the_middle(engine, result.id)) is not None:
            task = found
        else:
            _take_stray(board, result, receipt)
            continue
        if tasks.get(result.id) is not task:
            _take_unasked(board, engine, task, result)
            continue
        if task.group.function is not function:
            function = task.group.function
            functions[function] = None
        if result.outcome or not task.group.plain:
            _take_result(board, engine, task, result, receipt)
        else:
            end_task(board, task, result, receipt)
    for function in functions:
        function.measured(done.run_s / len(done.results))
        engine.productive = True
    engine.since = now
    if not receipt.holders and engine.receipts.advance():
        board.may_forget(engine.id)
    line_advanced(board, engine, length, now)


def _from_the_middle(engine: Engine, task_id: int) -> Task | None:
    """A task of the line that is not its first. The engine has passed over the gravestones before it."""
    for index, task in enumerate(engine.line):
        if task.id == task_id:
            passed = [engine.line.popleft() for _ in range(index)]
            engine.line.popleft()
            engine.line.extendleft(task for task in reversed(passed) if task.state < TaskState.FINISHED)
            return task
    return None


def _take_result(board: Board, engine: Engine, task: Task, result: Result, receipt: Receipt) -> None:
    group = task.group
    if not group.plain:
        release_resources(board, engine, task)
    failed = result.outcome is Outcome.ERROR and not task.cancelling
    if failed and group.options.retry_exceptions and may_try_again(task):
        task.attempts += 1
        move_task(task, TaskState.QUEUED)
        enqueue(board, task)
    else:
        end_task(board, task, result, receipt)


def release_resources(board: Board, engine: Engine, task: Task) -> None:
    """A task that needs more than a seat has left its engine."""
    node = board.nodes.get(engine.node)
    if node is not None and not task.group.plain:
        node.release(task.group.options.resources)


def _take_stray(board: Board, result: Result, receipt: Receipt) -> None:
    """A result of a task that this engine is not known to have. After a restart of the hub, that is news."""
    task = board.tasks.get(result.id)
    if task is not None and task.state <= TaskState.QUEUED:
        if result.outcome is Outcome.OK:
            withdraw(board, task)
        end_task(board, task, result, receipt)
    elif task is None and board.unsettled and result.id not in board.orphans and result.id not in board.answers:
        receipt.holders += 1
        board.orphans[result.id] = Orphan(result, receipt)


def _take_unasked(board: Board, engine: Engine, task: Task, result: Result) -> None:
    """The answer of a gravestone, or of a call that makes up the namespace."""
    release_resources(board, engine, task)
    if task.state >= TaskState.FINISHED:
        return
    move_task(task, TaskState.FINISHED if result.outcome is Outcome.OK else TaskState.FAILED)
    engine.replaying -= 1
    if result.outcome is not Outcome.OK:
        board.problems["replay"] = f"a part of the namespace could not be restored on rank {engine.rank}"
        board.seats_changed = True


def line_advanced(board: Board, engine: Engine, length: int, now: float) -> None:
    """Calls have left a line that had ``length`` of them."""
    line = engine.line
    if line:
        if line[0].state is _SENT:
            move_task(line[0], _RUNNING)
        engine.line_s *= len(line) / length
        if not engine.alone:
            board.hungry[engine.id] = engine
        return
    engine.line_s = 0.0
    engine.alone = False
    board.hungry.pop(engine.id, None)
    seat = board.seats[engine.rank]
    if seat.state is _BUSY:
        board.move_seat(seat, _IDLE, now)
    if seat.pinned:
        board.awake[seat.rank] = None


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
        if task.state < TaskState.FINISHED:
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
