"""Engines take resources for their lines, and give them back; tasks that wait for others lend them meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

from fibernb.core.board import Board
from fibernb.core.leases import Lease, Room
from fibernb.core.nodes import SEAT_MILLI
from fibernb.core.seats import Engine
from fibernb.model import Resources, TaskId


def take(board: Board, engine: Engine, room: Room, asked: Resources) -> None:
    """Resources for what an engine is about to be sent; they fit."""
    engine.lease = Lease(room, board.nodes[engine.node], asked, on_seat=engine.rank >= 0)


def give_back(board: Board, engine: Engine) -> None:
    """An engine has nothing left to do, or has ended."""
    if engine.blocked:
        end_pauses(board, engine, list(engine.blocked))
    if engine.lease is not None:
        engine.lease.end()
        engine.lease = None
        board.roomier = True


def end_pauses(board: Board, engine: Engine, tasks: Iterable[TaskId]) -> None:
    """These tasks of an engine, as far as they have waited for others, do so no more."""
    for task_id in tasks:
        pause = engine.blocked.pop(task_id, None)
        if pause is not None:
            board.history.pause(engine, task_id, pause, board.now)
    count_lent(board, engine)


def count_lent(board: Board, engine: Engine) -> None:
    """Make what an engine gives to others agree with whether a task of its line waits for some."""
    lent = bool(engine.blocked)
    actor = board.actors.get(engine.actor)
    lease = engine.lease if actor is None else actor.lease
    board.roomier = True
    if lease is not None:
        lease.lend(lent)
    elif lent != engine.lends_seat and engine.rank >= 0:
        engine.lends_seat = lent
        node = board.nodes.get(engine.node)
        if node is not None:
            node.count_cpus(-SEAT_MILLI if lent else SEAT_MILLI)
