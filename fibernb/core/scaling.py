"""How many seats there are. Ranks are always 0 to seats - 1, so the highest ranks come last and go first.

Autoscaling follows the queue: up at once, as far as the queued work asks for it; down only from the highest rank,
seat by seat, when that seat has had nothing to do for ``idle_s``. Since work goes to the lowest idle rank, the
highest ones fall idle first.
"""

from __future__ import annotations

from typing import Final

from fibernb.core.board import Board
from fibernb.core.messages import Autoscale, Exit, Scale
from fibernb.core.nodes import SEAT_MILLI
from fibernb.core.seating import retire
from fibernb.core.seats import Engine, Seat
from fibernb.core.sending import recall
from fibernb.core.states import SeatState
from fibernb.core.tasks import Group

LOOK: Final = ("autoscale", 0)
SHRINK: Final = ("shrink", 0)
DISMISS: Final = ("dismiss", 0)


def scale(board: Board, message: Scale, now: float) -> None:
    """Declare the number of seats; autoscaling is off then."""
    board.scaling.maximum = None
    board.hold_starts = False
    set_seats(board, _capped(board, message.seats), now)


def autoscale(board: Board, message: Autoscale, now: float) -> None:
    """Follow the queue from now on, or stay as it is."""
    scaling = board.scaling
    board.hold_starts = False
    if message.maximum is None:
        scaling.maximum = None
        return
    scaling.maximum = _capped(board, message.maximum)
    scaling.minimum = min(max(0, message.minimum), scaling.maximum)
    scaling.idle_s = message.idle_s
    set_seats(board, max(scaling.minimum, min(scaling.seats, scaling.maximum)), now)


def _capped(board: Board, seats: int) -> int:
    cap = board.settings.max_seats
    board.problems.pop("cap", None)
    if cap is not None and seats > cap:
        why = f", because of {board.settings.limit}" if board.settings.limit else ""
        board.problems["cap"] = f"{seats} seats were asked for, and no more than {cap} are allowed{why}"
        seats = cap
    return max(0, seats)


def set_seats(board: Board, seats: int, now: float) -> None:
    """Make ranks 0 to ``seats`` - 1 exist, and no others in the long run. Doing it twice is doing it once."""
    board.scaling.seats = seats
    board.seats_changed = True
    for rank in range(seats):
        seat = board.seats.get(rank)
        if seat is None:
            board.seats[rank] = Seat(rank, now)
            board.wanted[rank] = None
        elif seat.state is SeatState.DRAINING:
            _keep(board, seat, now)
    for rank in sorted((rank for rank in board.seats if rank >= seats), reverse=True):
        retire(board, board.seats[rank], now)


def _keep(board: Board, seat: Seat, now: float) -> None:
    """A seat that was to go stays after all."""
    del board.draining[seat.rank]
    busy = board.engine_of(seat.rank).line
    board.move_seat(seat, SeatState.BUSY if busy else SeatState.IDLE, now)


def dismiss_drained(board: Board, now: float) -> None:
    """Seats that are declared no more and have nothing left to do let their engines go."""
    for rank in list(board.draining):
        seat = board.seats[rank]
        engine = board.engine_of(rank)
        if engine.line:
            recall(board, engine, engine.not_begun())
        elif not seat.pinned and not _keeps_results(board, seat, engine, now):
            del board.draining[rank]
            engine.doomed, engine.asked = "its seat is not needed any more", True
            board.move_seat(seat, SeatState.LOST, now)
            board.tell_engine(engine, Exit())
            board.timers.set(("exit", engine.id), now + board.settings.exit_grace_s)


def _keeps_results(board: Board, seat: Seat, engine: Engine, now: float) -> bool:
    """Whether results of an engine are not known to have arrived: if the hub died, no one else would have them.

    That is waited for, but not longer than a lease.
    """
    due = seat.since + board.settings.lease_s
    if not engine.receipts.open or now >= due:
        return False
    board.timers.set_default(DISMISS, due)
    return True


# ---- autoscaling ----------------------------------------------------------------------------------------


def follow_queue(board: Board, now: float) -> None:
    """Grow or shrink, if autoscaling is on."""
    if board.scaling.maximum is None or board.recovering:
        return
    if board.plain.count or board.special.count:
        if LOOK not in board.timers:
            board.timers.set(LOOK, now + board.settings.autoscale_s)
            _grow(board, board.scaling.maximum, now)
    else:
        _shrink(board, now)


def _grow(board: Board, maximum: int, now: float) -> None:
    busy = sum(1 for seat in board.seats.values() if seat.state is SeatState.BUSY)
    horizon = board.settings.autoscale_horizon_s
    groups = [*board.plain.groups(), *board.special.groups()]
    target = min(maximum, busy + sum(_seats_for(group, horizon) for group in groups))
    if target > board.scaling.seats:
        set_seats(board, target, now)


def _seats_for(group: Group, horizon_s: float) -> int:
    """How many seats a group's queue would use: one a call, or fewer if those run out of work before the horizon."""
    calls = len(group.ready) + len(group.suspects)
    width = max(1, -(-group.options.resources.milli_cpus // SEAT_MILLI))
    run_s = group.function.run_s
    if run_s is not None and run_s < horizon_s:
        calls = min(calls, int(calls * run_s / horizon_s) + 1)
    return calls * width


def _shrink(board: Board, now: float) -> None:
    scaling = board.scaling
    seats = scaling.seats
    while seats > scaling.minimum:
        seat = board.seats[seats - 1]
        if seat.pinned or seat.state not in (SeatState.IDLE, SeatState.WANTED):
            break
        if now < seat.since + scaling.idle_s:
            board.timers.set_default(SHRINK, seat.since + scaling.idle_s)
            break
        seats -= 1
    if seats < scaling.seats:
        set_seats(board, seats, now)
