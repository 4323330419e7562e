"""How work is stopped: whole trees of it, softly first, then for good.

A task that has not been sent just ends. One that an engine holds but has not begun ends for its client at once, and
stays in the engine's line as a gravestone. One that may be running is interrupted and ends with the engine's answer.
Whatever interrupted thing is first in an engine's line has ``interrupt_grace_s`` to be gone; then its engine is
killed. A second cancel, or one with force, kills at once; but the engine of an actor, whose state would be lost, only
with force.
"""

from __future__ import annotations

from collections.abc import Iterable

from fibernb.core.board import Board
from fibernb.core.commands import KillEngine
from fibernb.core.endings import cancelled, end_task
from fibernb.core.messages import Cancel, Interrupt, InterruptRanks
from fibernb.core.seats import Engine
from fibernb.core.states import SeatState, TaskState
from fibernb.core.tasks import Task
from fibernb.model import TaskId


def cancel(board: Board, message: Cancel, now: float) -> None:
    """Stop tasks and, if asked, everything that they submitted."""
    stop_tasks(board, message.tasks, message.force, message.recursive, now)


def interrupt_ranks(board: Board, message: InterruptRanks, now: float) -> None:
    """Stop what runs on these ranks, with everything that it submitted."""
    running: list[TaskId] = []
    for rank in message.ranks:
        seat = board.seats.get(rank)
        if seat is not None and seat.engine is not None and seat.engine.line:
            running.append(seat.engine.running().id)
    stop_tasks(board, running, False, True, now)


def stop_tasks(board: Board, ids: Iterable[TaskId], force: bool, recursive: bool, now: float) -> None:
    """Stop tasks by id. Those that are not known, or have ended, may still have children."""
    rest = list(ids)
    seen = set(rest)
    while rest:
        id_ = rest.pop()
        if recursive:
            for child in children_of(board, id_):
                if child not in seen:
                    seen.add(child)
                    rest.append(child)
        task = board.tasks.get(id_)
        if task is not None:
            stop_task(board, task, force, now)


def children_of(board: Board, id_: TaskId) -> list[TaskId]:
    return [child for group in board.children.get(id_, ()) for child in group.members or ()]


def stop_task(board: Board, task: Task, force: bool, now: float) -> None:
    """Stop one task; what it submitted goes on. Nor is the making of an actor stopped, which only ends with it."""
    if task.group.actor and not task.group.client.id:
        return
    engine = board.engines.get(task.engine) if task.state in (TaskState.SENT, TaskState.RUNNING) else None
    if engine is None:
        end_task(board, task, cancelled(board, task))
    elif not engine.begun(task):
        _interrupt(board, engine, task)
        end_task(board, task, cancelled(board, task))
    elif force or (task.cancelling and not engine.actor):
        task.cancelling = True
        kill(board, engine, "a task that was cancelled had to be stopped", now)
    else:
        task.cancelling = True
        _interrupt(board, engine, task)


def abandon(board: Board, task: Task) -> None:
    """End a task that nobody waits for any more; what an engine holds of it is interrupted, unless it is a process."""
    engine = board.engines.get(task.engine) if task.state in (TaskState.SENT, TaskState.RUNNING) else None
    if engine is not None and not _is_process(board, engine):
        _interrupt(board, engine, task)
    end_task(board, task, cancelled(board, task, "its client has gone"))


def orphaned(board: Board, engine: Engine, now: float) -> None:
    """A process has not ended by itself after its parent did."""
    kill(board, engine, "its parent has ended", now)


def _is_process(board: Board, engine: Engine) -> bool:
    return bool(engine.actor) and board.actors[engine.actor].create.options.is_process


def _interrupt(board: Board, engine: Engine, task: Task) -> None:
    if engine.killed:
        return  # nobody would hear it
    board.tell_engine(engine, Interrupt(task=task.id))
    if not engine.actor:
        board.interrupted[engine.id] = engine


def watch(board: Board, now: float) -> None:
    """Give a grace to each interrupted task that has become the first of its line."""
    for engine in list(board.interrupted.values()):
        key = ("grace", engine.id)
        head = engine.line[0] if engine.line and engine.usable else None
        if head is None or not _stopped(head):
            board.timers.cancel(key)
            engine.watched = None
            if not any(map(_stopped, engine.line)) or head is None:
                del board.interrupted[engine.id]
        elif engine.watched != head.id:
            engine.watched = head.id
            board.timers.set(key, now + board.settings.interrupt_grace_s)


def _stopped(task: Task) -> bool:
    return task.cancelling or task.state >= TaskState.FINISHED


def grace_over(board: Board, engine: Engine, now: float) -> None:
    """An interrupted task has not ended in time."""
    kill(board, engine, f"an interrupted task did not stop within {board.settings.interrupt_grace_s:g} s", now)


def kill(board: Board, engine: Engine, reason: str, now: float, *, asked: bool = True) -> None:
    """End an engine's process. What it had is decided when its end is certain. ``asked``: not a fault of the engine."""
    if engine.killed:
        return
    engine.killed = True
    engine.asked = engine.asked or asked
    engine.doomed = engine.doomed or reason
    seat = board.seats[engine.rank]
    if seat.state is not SeatState.LOST:
        board.move_seat(seat, SeatState.LOST, now)
    board.hungry.pop(engine.id, None)
    board.deep.pop(engine.id, None)
    board.draining.pop(engine.rank, None)
    board.commands.append(KillEngine(engine=engine.id, reason=reason))
