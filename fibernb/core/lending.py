"""Tasks that wait for other tasks lend what they hold, so that these can run: to any depth, on any number of seats.

The cpus of a blocked task count as free. What is queued behind it is taken back, and ordinary tasks may run beside the
seats on as many engines as there are whole cpus free.
"""

from __future__ import annotations

from fibernb.core.board import Board
from fibernb.core.leasing import count_lent, end_pauses
from fibernb.core.messages import Blocked, Unblocked
from fibernb.core.seats import Engine, Pause
from fibernb.core.sending import recall
from fibernb.core.tasks import Task


def blocked(board: Board, message: Blocked) -> None:
    """A task waits. After a restart of the hub its client may tell so before its engine has told that it runs."""
    task = board.tasks.get(message.task)
    engine = board.engines.get(task.engine) if task is not None else None
    if task is not None and engine is not None:
        lend(board, engine, task)
    elif board.unsettled:
        board.early_blocked.add(message.task)


def lend(board: Board, engine: Engine, task: Task) -> None:
    """A task of an engine's line waits for others. Calls of an actor stay in its line: they can run nowhere else."""
    engine.blocked.setdefault(task.id, Pause(task.group.title, board.now))
    count_lent(board, engine)
    if not engine.actor:
        engine.alone = True
        board.hungry.pop(engine.id, None)
        recall(board, engine, engine.not_begun())


def unblocked(board: Board, message: Unblocked) -> None:
    """The task goes on. What runs in its place may do so, too: there is more at work than cpus for a while."""
    board.early_blocked.discard(message.task)
    task = board.tasks.get(message.task)
    engine = board.engines.get(task.engine) if task is not None else None
    if engine is not None:
        end_pauses(board, engine, [message.task])


def take_claimed(board: Board, engine: Engine, tasks: list[Task]) -> None:
    """An engine has told after a restart of the hub what it has: some of it is known to wait."""
    for task in tasks:
        if task.id in board.early_blocked:
            board.early_blocked.remove(task.id)
            lend(board, engine, task)
