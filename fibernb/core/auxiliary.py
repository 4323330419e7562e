"""Seats beside the declared ones: of actors, and of tasks that a declared seat cannot or should not run.

They have negative ranks, come when something needs them, and are let go when they have been idle for a while. Engines
of tasks stand in pools, by node and runtime environment, and are used again; that of an actor is its own.
"""

from __future__ import annotations

import heapq
from typing import Final

from fibernb.core.board import EXTRAS, Board, Pool
from fibernb.core.seats import Seat
from fibernb.core.states import SeatState
from fibernb.model import ObjectId, Rank

UNKNOWN: Final = "unknown"  # no runtime environment: those are JSON objects


def pool_of(board: Board, node: str, environment: str) -> Pool:
    pool = board.pools.get((node, environment))
    if pool is None:
        pool = board.pools[node, environment] = Pool(node, environment)
    return pool


def idle_rank(pool: Pool) -> Rank | None:
    """The seat of a pool that has been idle for the shortest time."""
    return next(reversed(pool.idle), None)


def ask(board: Board, pool: Pool, count: int, now: float) -> None:
    """So many more tasks of this pool could run now if it had the engines."""
    pool.asked += count
    wanted = min(pool.asked, board.settings.max_starting)
    while len(pool.starting) < wanted:
        seat = add_seat(board, pool.node, pool.environment, 0, now)
        pool.starting.add(seat.rank)


def is_starting_still(board: Board, seat: Seat) -> None:
    """The engine of a pool sets itself up before it can take a task, which may take as long as installing packages.
    None other is started in its place.
    """
    pool_of(board, seat.node, seat.environment).starting.add(seat.rank)


def add_seat(board: Board, node: str, environment: str, actor: ObjectId, now: float) -> Seat:
    """A new seat, which gets an engine at once."""
    if board.free_ranks:
        rank = -heapq.heappop(board.free_ranks)
    else:
        rank = board.next_extra
        board.next_extra -= 1
    return place_seat(board, Seat(rank, now, node, environment, actor))


def place_seat(board: Board, seat: Seat) -> Seat:
    board.seats[seat.rank] = seat
    board.wanted[seat.rank] = None
    return seat


def expect(board: Board, seat: Seat, node: str) -> None:
    """A seat that an engine from a hub before this one takes. What it was for is told by the engine, if it is an actor;
    if not, it is let go when it has nothing to do.
    """
    seat.node, seat.environment = node, UNKNOWN
    pool_of(board, node, UNKNOWN).starting.add(seat.rank)
    board.next_extra = min(board.next_extra, seat.rank - 1)


def take_seat(board: Board, seat: Seat, actor: ObjectId, environment: str) -> None:
    """Such a seat belongs to an actor, whose next engine needs the environment as well."""
    pool_of(board, seat.node, UNKNOWN).starting.discard(seat.rank)
    seat.actor, seat.environment = actor, environment


def remove_seat(board: Board, seat: Seat) -> None:
    """A seat beside the declared ones is needed no more, and has no engine."""
    del board.seats[seat.rank]
    board.wanted.pop(seat.rank, None)
    board.timers.cancel(("start", seat.rank))
    heapq.heappush(board.free_ranks, -seat.rank)
    board.roomier = True  # who waits for it has to ask again
    if not seat.actor:
        board.pools[seat.node, seat.environment].starting.discard(seat.rank)


def is_wanted(board: Board, seat: Seat) -> bool:
    """Whether a seat of a pool that has lost its engine needs another: only if that one failed to start, and there is
    work. Otherwise a new seat is made when one is asked for.
    """
    return bool(seat.failures) and bool(board.plain.count or board.special.count)


def node_lost(board: Board, node: str) -> None:
    """Seats there that wait for an engine wait in vain. Actors are placed elsewhere."""
    for seat in [seat for seat in board.seats.values() if seat.rank < 0 and seat.node == node]:
        if seat.actor:
            actor = board.actors[seat.actor]
            actor.rank, actor.lease = 0, None
        remove_seat(board, seat)


def let_idle_go(board: Board, now: float) -> None:
    """Engines of pools that have had nothing to do for some time are let go."""
    idle_s = board.settings.extra_idle_s
    for pool in board.pools.values():
        for rank in list(pool.idle):
            seat = board.seats[rank]
            if now < seat.since + idle_s:
                board.timers.set_default(EXTRAS, seat.since + idle_s)
            else:
                board.move_seat(seat, SeatState.DRAINING, now)
                board.draining[rank] = None
