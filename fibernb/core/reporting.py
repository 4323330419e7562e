"""What clients are told about the cluster as a whole."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fibernb.core.board import Board
from fibernb.core.messages import SeatsChanged, SeatStatus, Status
from fibernb.core.nodes import describe
from fibernb.core.seats import Seat
from fibernb.core.states import SeatState, TaskState

REPORT: Final = ("report", 0)
READY: Final = (SeatState.IDLE, SeatState.BUSY)


def report_seats(board: Board, now: float) -> None:
    """Tell clients that seats have changed, not more often than every ``report_s``."""
    if not board.seats_changed or REPORT in board.timers:
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


def _seat_states(board: Board) -> Counter[SeatState]:
    return Counter(seat.state for seat in board.seats.values())


def problem(board: Board) -> str:
    """Why seats do not fill, or empty."""
    troubles = [seat.trouble for seat in _troubled(board)][:1]
    return "; ".join([*board.problems.values(), *troubles])


def _troubled(board: Board) -> list[Seat]:
    """Seats that wait for an engine after one has failed, lowest rank first."""
    seats = [seat for seat in board.seats.values() if seat.trouble and seat.state not in READY]
    return sorted(seats, key=lambda seat: seat.rank)


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
        engines=[_seat_status(seat, now) for _, seat in sorted(board.seats.items())],
        clients=sum(1 for _ in board.users()),
        pending=_pending(board, tasks),
        minimum=scaling.minimum if scaling.maximum is not None else None,
        maximum=scaling.maximum,
        uptime_s=now - (board.started_at or 0.0),
        node=board.settings.node,
        pid=board.settings.pid,
        problem=problem(board),
    )


def _seat_status(seat: Seat, now: float) -> SeatStatus:
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


def _pending(board: Board, tasks: Counter[TaskState]) -> list[str]:
    """Why tasks and seats wait, one reason a line."""
    reasons = _pending_tasks(board, tasks) + _pending_seats(board)
    if board.recovering:
        reasons.append(f"the hub was restarted: {len(board.recovering)} engines have not told yet what they have")
    return reasons


def _pending_tasks(board: Board, tasks: Counter[TaskState]) -> list[str]:
    reasons: list[str] = []
    if tasks[TaskState.WAITING]:
        reasons.append(f"{tasks[TaskState.WAITING]} tasks wait for their inputs")
    queued = board.plain.count + board.special.count
    if queued and not board.scaling.seats:
        return [*reasons, f"{queued} tasks wait for seats, and none are declared: scale up"]
    if board.plain.count:
        reasons.append(f"{board.plain.count} tasks wait for a seat to fall idle")
    reasons += [
        f"{len(group.ready) + len(group.suspects)} tasks wait for {describe(group.options.resources)} on one node"
        for group in board.special.groups()
    ]
    pinned = sum(len(seat.pinned) for seat in board.seats.values())
    if pinned:
        reasons.append(f"{pinned} tasks wait for the seats that they are pinned to")
    return reasons


def _pending_seats(board: Board) -> list[str]:
    reasons: list[str] = []
    if board.wanted:
        why = "a free slot on a node" if board.nodes else "a node to connect"
        reasons.append(f"{len(board.wanted)} seats wait for {why}")
    reasons += [
        f"rank {seat.rank} is tried again later, after {seat.failures} failures: {seat.trouble}"
        for seat in _troubled(board)[:3]
    ]
    return reasons
