"""What becomes of the calls of an engine that has ended.

The call that was running may have been the cause: it has used up an attempt. Those behind it have not, but if they
were close behind, one of them may have been running by then. So all of them run alone the next time: who kills an
engine alone is guilty.
"""

from __future__ import annotations

from fibernb.core.board import Board
from fibernb.core.endings import cancelled, died_with, end_task
from fibernb.core.events import EngineExited
from fibernb.core.remaking import wait_for_inputs
from fibernb.core.seats import Engine
from fibernb.core.states import TaskState
from fibernb.core.tasks import ANY_RANK, Task, may_try_again, move_task
from fibernb.model import Outcome, Result


def lose_line(board: Board, engine: Engine, event: EngineExited) -> None:
    """Decide about everything that an engine held."""
    held = [(task, engine.begun(task)) for task in engine.line]
    engine.line.clear()
    back: list[Task] = []
    for task, begun in held:
        if board.tasks.get(task.id) is not task:
            continue
        move_task(task, TaskState.LOST)
        if _goes_on(board, task, begun):
            task.attempts += begun
            back.append(task)
        else:
            end_task(board, task, _last_word(board, task, engine, event))
    _queue_again(board, back, suspect=not engine.asked)


def _goes_on(board: Board, task: Task, begun: bool) -> bool:
    if task.cancelling or task.rank != ANY_RANK or task.group is board.claimed:
        return False
    return not begun or may_try_again(task)


def _last_word(board: Board, task: Task, engine: Engine, event: EngineExited) -> Result:
    if task.cancelling:
        return cancelled(board, task, _replaced_because(engine), engine_replaced=True)
    return Result(task.id, died_with(board, engine, event), Outcome.ERROR)


def _replaced_because(engine: Engine) -> str:
    reason = engine.doomed or "it had ended by itself"
    return f"it was cancelled, and its engine was replaced: {reason}"


def _queue_again(board: Board, tasks: list[Task], suspect: bool) -> None:
    for task in tasks:
        task.since = board.now
        move_task(task, TaskState.WAITING if wait_for_inputs(board, task) else TaskState.QUEUED)
    ready = [task for task in tasks if not task.blockers]
    if suspect:
        for task in ready:
            board.queue_of(task.group).push_suspect(task)
    else:
        for task in reversed(ready):
            board.queue_of(task.group).push_front(task)
