"""What clients are told about the cluster as a whole."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fibernb.core.board import Board
from fibernb.core.explaining import pending, troubled
from fibernb.core.messages import NodeStatus, SeatsChanged, SeatStatus, Status
from fibernb.core.nodes import SEAT_MILLI, Node
from fibernb.core.seats import Seat
from fibernb.core.states import SeatState, TaskState
from fibernb.model import Resources

REPORT: Final = ("report", 0)
READY: Final = (SeatState.IDLE, SeatState.BUSY)


def report_seats(board: Board, now: float) -> None:
    """Tell clients that seats have changed, not more often than every ``report_s``."""
    if REPORT in board.timers:
        return
    board.seats_changed = False
    board.timers.set(REPORT, now + board.settings.report_s)
    message = seats_message(board)
    board.lost_ranks.clear()
    for client in board.users():
        if client.attached:
            board.tell_client(client, message)


def seats_message(board: Board) -> SeatsChanged:
    """How many seats there are, and how many have an engine."""
    states = _seat_states(board)
    return SeatsChanged(
        seats=board.scaling.seats,
        ready=states[SeatState.IDLE] + states[SeatState.BUSY],
        starting=states[SeatState.STARTING],
        lost=sorted(board.lost_ranks),
        problem=problem(board),
    )


def _seats(board: Board) -> list[Seat]:
    """The declared ones, in order, and those that are not declared any more but not gone yet."""
    return [seat for rank, seat in sorted(board.seats.items()) if rank >= 0]


def _seat_states(board: Board) -> Counter[SeatState]:
    return Counter(seat.state for rank, seat in board.seats.items() if rank >= 0)


def problem(board: Board) -> str:
    """Why seats do not fill, or empty."""
    troubles = [seat.trouble for seat in troubled(board)][:1]
    return "; ".join([*board.problems.values(), *troubles])


def status(board: Board, request: int, now: float) -> Status:
    """Everything at once."""
    states = _seat_states(board)
    tasks = Counter(task.state for task in board.tasks.values())
    scaling = board.scaling
    return Status(
        request=request,
        seats=scaling.seats,
        ready=states[SeatState.IDLE] + states[SeatState.BUSY],
        busy=states[SeatState.BUSY],
        starting=states[SeatState.STARTING],
        waiting=tasks[TaskState.WAITING],
        queued=tasks[TaskState.QUEUED],
        running=tasks[TaskState.SENT] + tasks[TaskState.RUNNING],
        finished=board.counts.finished,
        failed=board.counts.failed,
        refused=board.counts.refused,
        engines=[seat_status(seat, now) for seat in _seats(board)],
        clients=sum(1 for _ in board.users()),
        pending=pending(board, tasks),
        minimum=scaling.minimum if scaling.maximum is not None else None,
        maximum=scaling.maximum,
        uptime_s=now - (board.started_at or 0.0),
        node=board.settings.node,
        pid=board.settings.pid,
        problem=problem(board),
        nodes=node_statuses(board),
        actors=sum(1 for actor in board.actors.values() if not actor.dead),
        extra=sum(1 for engine in board.engines.values() if engine.rank < 0),
        objects=len(board.objects.entries),
    )


def node_statuses(board: Board) -> list[NodeStatus]:
    """What each node has, its declared seats counting a cpu each, and what of that is free."""
    return [_node_status(board, node) for _, node in sorted(board.nodes.items())]


def _node_status(board: Board, node: Node) -> NodeStatus:
    seats = [seat for seat in _seats(board) if seat.rank < board.scaling.seats]
    here = sum(1 for seat in seats if seat.engine is not None and seat.engine.node == node.name)
    capacity = node.stock.capacity
    total = Resources(
        milli_cpus=here * SEAT_MILLI,
        milli_gpus=capacity.milli_gpus,
        memory_bytes=capacity.memory_bytes,
        custom=capacity.custom,
    )
    return NodeStatus(name=node.name, alive=True, total=total, free=node.stock.free(node.free_milli()))


def seat_status(seat: Seat, now: float) -> SeatStatus:
    engine = seat.engine
    name = seat.state.name.lower()
    if engine is None:
        return SeatStatus(rank=seat.rank, engine=0, state=name, queued=len(seat.pinned), deaths=seat.deaths)
    task = engine.running() if engine.line else None
    return SeatStatus(
        rank=seat.rank,
        engine=engine.id,
        state=name,
        pid=engine.pid,
        task=None if task is None else task.id,
        function="" if task is None else task.group.options.name or task.group.function.name,
        queued=len(seat.pinned) + max(0, len(engine.line) - 1),
        deaths=seat.deaths,
        busy_s=0.0 if task is None else max(0.0, now - engine.since),
    )
