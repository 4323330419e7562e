"""How many seats there are. Ranks are always 0 to seats - 1, so the highest ranks come last and go first.

Autoscaling follows the queue: up at once, as far as the queued work asks for it; down only from the highest rank,
seat by seat, when that seat has had nothing to do for ``idle_s``. Since work goes to the lowest idle rank, the
highest ones fall idle first.
"""

from __future__ import annotations

from typing import Final

from fibernb.core.board import Board
from fibernb.core.grouping import asked_milli
from fibernb.core.messages import Autoscale, EndActor, Exit, Scale
from fibernb.core.nodes import SEAT_MILLI, held_seats
from fibernb.core.seating import retire
from fibernb.core.seats import Engine, Seat
from fibernb.core.sending import recall
from fibernb.core.special import Options
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
        elif seat.state is SeatState.DRAINING and not board.engine_of(rank).worn:
            _keep(board, seat, now)
    for rank in sorted((rank for rank in board.seats if rank >= seats), reverse=True):
        retire(board, board.seats[rank], now)


def _keep(board: Board, seat: Seat, now: float) -> None:
    """A seat that was to go stays after all."""
    del board.draining[seat.rank]
    busy = board.engine_of(seat.rank).line
    board.move_seat(seat, SeatState.BUSY if busy else SeatState.IDLE, now)


def dismiss_drained(board: Board, now: float) -> None:
    """Engines that are not needed any more, or are worn out, go when they have nothing left to do. Whatever an actor
    has in its line when it is here, it will not do any more.
    """
    for rank in list(board.draining):
        seat = board.seats[rank]
        engine = board.engine_of(rank)
        if engine.line and not engine.actor:
            recall(board, engine, engine.not_begun())
        elif not (seat.pinned and not engine.worn) and not _keeps_results(board, seat, engine, now):
            del board.draining[rank]
            engine.doomed, engine.asked = "it is not needed any more", True
            board.move_seat(seat, SeatState.LOST, now)
            board.tell_engine(engine, EndActor() if engine.actor else Exit())
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


def follow_queue(board: Board, maximum: int, now: float) -> None:
    """Grow or shrink, as autoscaling says."""
    if board.plain.count or board.special.count or board.unplaced:
        if LOOK not in board.timers:
            board.timers.set(LOOK, now + board.settings.autoscale_s)
            _grow(board, maximum, now)
    else:
        _shrink(board, now)


def _grow(board: Board, maximum: int, now: float) -> None:
    horizon = board.settings.autoscale_horizon_s
    queued = sum(_seats_for(board, group, horizon) for group in [*board.plain.groups(), *board.special.groups()])
    target = min(maximum, _used(board) + queued - (-asked_milli(board) // SEAT_MILLI))
    if target > board.scaling.seats:
        set_seats(board, target, now)


def _seats_for(board: Board, group: Group, horizon_s: float) -> int:
    """How many seats a group's queue would use: one a call, or fewer if those run out of work before the horizon."""
    actor = board.actors.get(group.actor)
    if actor is not None:
        return 0 if actor.rank else _width(actor.create.options)
    calls = len(group.ready) + len(group.suspects)
    width = _width(group.options)
    run_s = group.function.run_s
    if run_s is not None and run_s < horizon_s:
        calls = min(calls, int(calls * run_s / horizon_s) + 1)
    return calls * width


def _used(board: Board) -> int:
    """How many seats are busy, or kept empty for something."""
    busy = sum(1 for rank, seat in board.seats.items() if rank >= 0 and seat.state is SeatState.BUSY)
    return busy + held_seats(board.nodes.values())


def _width(options: Options) -> int:
    """How many seats a task needs, or keeps empty. What runs in a placement group has got its cpus before."""
    return 0 if options.placement else -(-options.resources.milli_cpus // SEAT_MILLI)


def _shrink(board: Board, now: float) -> None:
    scaling = board.scaling
    seats = scaling.seats
    least = max(scaling.minimum, _used(board))
    while seats > least:
        seat = board.seats[seats - 1]
        if seat.pinned or seat.state not in (SeatState.IDLE, SeatState.WANTED):
            break
        if now < seat.since + scaling.idle_s:
            board.timers.set_default(SHRINK, seat.since + scaling.idle_s)
            break
        seats -= 1
    if seats < scaling.seats:
        set_seats(board, seats, now)
