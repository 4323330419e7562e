"""After a restart of the hub: what it knew is put together again from the ends.

Engines come first. Each tells which calls it holds and sends again the results that are not known to have arrived;
until all have done so, or patience is over, nothing is decided about tasks. A call that an engine has is *claimed*; a
result whose client has not asked for it yet is an *orphan*. Clients come whenever they can and submit again what has
not been answered: claims and orphans find their clients by task id. What nobody has asked for when the lease is over
is dropped.
"""

from __future__ import annotations

from typing import Final

from fibernb.core import acting, auxiliary, lending, reviving
from fibernb.core.attending import EMPTY
from fibernb.core.board import Board
from fibernb.core.cancelling import abandon, kill
from fibernb.core.commands import RetainBlocks
from fibernb.core.endings import drop_orphan, fail_dependents, supply, withdraw
from fibernb.core.events import EngineAttached, LiveEngine, RecoverFrom
from fibernb.core.holding import missing, needed, will_come
from fibernb.core.nodes import Node
from fibernb.core.seats import Engine, Seat
from fibernb.core.sending import begin_line
from fibernb.core.states import SeatState, TaskState
from fibernb.core.streams import tell_consumed
from fibernb.core.tasks import Task, move_task
from fibernb.model import Call, EngineId, Resources, TaskId

PATIENCE: Final = ("patience", 0)
SETTLE: Final = ("settle", 0)
ROOM: Final = 2**20  # engine ids that the hub before may still have given away


def recover_from(board: Board, event: RecoverFrom, now: float) -> None:
    """The first event of a restarted hub."""
    node = board.nodes.setdefault(event.node, Node(event.node, None, Resources(milli_cpus=0)))
    for live in sorted(event.engines, key=lambda live: live.engine):
        _expect(board, node, live, now)
    board.next_engine = max([*board.engines, *event.ended], default=0) + ROOM
    board.exit_codes = event.ended
    board.scaling.seats = max((rank for rank in board.seats if rank >= 0), default=-1) + 1
    for rank in range(board.scaling.seats):
        if rank not in board.seats:
            board.seats[rank] = Seat(rank, now)
            board.wanted[rank] = None
    board.unsettled = board.hold_starts = board.objects.patient = True
    settled = now + event.patience_s + board.settings.lease_s
    board.timers.set(PATIENCE, now + event.patience_s)
    board.timers.set(SETTLE, settled)
    board.timers.set(EMPTY, settled)


def _expect(board: Board, node: Node, live: LiveEngine, now: float) -> None:
    """An engine that lives will attach. Of two on one seat, the newer one counts (they come by age)."""
    seat = board.seats[live.rank] = Seat(live.rank, now)
    if live.rank < 0:
        auxiliary.expect(board, seat, node.name)
    seat.engine = board.engines[live.engine] = Engine(live.engine, live.rank, node.name)
    node.count_engine(live.rank, 1)
    board.move_seat(seat, SeatState.STARTING, now)
    board.recovering[live.engine] = None


def take_inventory(board: Board, engine: Engine, event: EngineAttached, now: float) -> None:
    """An engine tells what it has. Its calls keep their positions as far as that is known; none of them is taken
    back.
    """
    engine.next_position = engine.inherited = event.received
    engine.redelivers = event.redelivers
    engine.alone = True
    position = event.received - len(event.holds)
    for id_ in event.holds:
        task = _claim(board, id_)
        if task is not None:
            move_task(task, TaskState.SENT)
            task.engine, task.position = engine.id, position
            if not engine.line:
                begin_line(board, engine, task, now)
            engine.line.append(task)
            tell_consumed(board, task)
        position += 1
    lending.take_claimed(board, engine, list(engine.line))
    if not engine.redelivers:
        board.recovering.pop(engine.id, None)


def _claim(board: Board, id_: TaskId) -> Task | None:
    """The task that an engine holds; None when it is known to be elsewhere."""
    task = board.tasks.get(id_)
    if task is None:
        task = board.tasks[id_] = Task(id_, Call(id_, b""), board.claimed, TaskState.WAITING)
        board.claimed.live += 1
        return task
    if task.state > TaskState.QUEUED:
        return None
    withdraw(board, task)
    return task


def redelivered(board: Board, engine: Engine) -> None:
    """One of the messages that an engine had to send again has come."""
    engine.redelivers -= 1
    if engine.redelivers <= 0:
        board.recovering.pop(engine.id, None)


def patience_over(board: Board, now: float) -> None:
    """Go on without those that have not told what they have. Who has not even attached is replaced."""
    late: list[EngineId] = list(board.recovering)
    board.recovering.clear()
    board.hold_starts = False
    for engine_id in late:
        engine = board.engines[engine_id]
        if not engine.attached:
            kill(board, engine, "it did not come back after the hub was restarted", now, asked=False)


def settle(board: Board) -> None:
    """Clients that have not come back by now will not: nothing is kept for them, nor what nobody has asked for."""
    objects = board.objects
    board.unsettled = objects.patient = False
    acting.refuse_early_calls(board)
    for orphan in board.orphans.values():
        drop_orphan(board, orphan)
    board.orphans.clear()
    for task in [task for task in board.tasks.values() if task.group is board.claimed]:
        if not needed(board, task):
            abandon(board, task)
    for object_id, entry in list(objects.entries.items()):
        if entry.result is None and not entry.lost and not will_come(board, object_id):
            fail_dependents(board, supply(board, missing(board, object_id)))
        objects.let_go(object_id)
    reviving.give_up(board)
    board.commands.append(RetainBlocks(blocks=sorted(objects.blocks)))
