"""The theory: which states tasks, seats and clients have, and which moves between them are lawful.

A *task* waits for its inputs (WAITING), then for a seat (QUEUED). It is SENT with others in one message and RUNNING
when it is the first of its engine's line. It ends FINISHED with a value, FAILED with an error, or CANCELLED. When its
engine dies it is LOST for an instant, and then QUEUED again or FAILED. A task that is taken back from an engine is
QUEUED again; one whose inputs get lost is WAITING again. A restarted hub hears of tasks in any order: it may learn
that a task that it holds as WAITING or QUEUED is running, or is over.

A *seat* is WANTED until an engine is asked for, STARTING until that engine has attached, then IDLE or BUSY. A seat
that is declared no more is DRAINING: it finishes what it holds and gets nothing new. It is LOST from when its engine
was told to end, or has ended, until the end is certain; then it is WANTED again, or no more.

An *actor* is PENDING while its constructor's inputs or its resources are not there, STARTING while it gets its engine
and its constructor runs, then ALIVE. When its engine dies it is RESTARTING, as often as it may be, and ALIVE again when
it has been made again. It is DEAD in the end.

A *client* is ATTACHED while its link stands, LEASED after the link broke; it is forgotten when it comes back too
late, or says goodbye.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, TypeVar

from fibernb.errors import FibernbError


class TaskState(enum.IntEnum):
    WAITING = 0
    QUEUED = 1
    SENT = 2
    RUNNING = 3
    FINISHED = 4
    FAILED = 5
    CANCELLED = 6
    LOST = 7


class SeatState(enum.IntEnum):
    WANTED = 0
    STARTING = 1
    IDLE = 2
    BUSY = 3
    DRAINING = 4
    LOST = 5


class ActorState(enum.IntEnum):
    PENDING = 0
    STARTING = 1
    ALIVE = 2
    RESTARTING = 3
    DEAD = 4


class ClientState(enum.IntEnum):
    ATTACHED = 0
    LEASED = 1


S = TypeVar("S", TaskState, SeatState, ActorState, ClientState)


def _moves(table: dict[S, Iterable[S]]) -> frozenset[tuple[S, S]]:
    return frozenset((old, new) for old, targets in table.items() for new in targets)


_T: Final = TaskState
_ENDED: Final = (_T.FINISHED, _T.FAILED, _T.CANCELLED)

TASK_MOVES: Final = _moves(
    {
        _T.WAITING: (_T.QUEUED, _T.SENT, *_ENDED),
        _T.QUEUED: (_T.WAITING, _T.SENT, *_ENDED),
        _T.SENT: (_T.RUNNING, _T.QUEUED, _T.LOST, *_ENDED),
        _T.RUNNING: (_T.QUEUED, _T.LOST, *_ENDED),
        _T.LOST: (_T.WAITING, _T.QUEUED, _T.FAILED, _T.CANCELLED),
    }
)

_S: Final = SeatState

SEAT_MOVES: Final = _moves(
    {
        _S.WANTED: (_S.STARTING,),
        _S.STARTING: (_S.IDLE, _S.LOST),
        _S.IDLE: (_S.BUSY, _S.DRAINING, _S.LOST),
        _S.BUSY: (_S.IDLE, _S.DRAINING, _S.LOST),
        _S.DRAINING: (_S.IDLE, _S.BUSY, _S.LOST),
        _S.LOST: (_S.WANTED,),
    }
)

_A: Final = ActorState

ACTOR_MOVES: Final = _moves(
    {
        _A.PENDING: (_A.STARTING, _A.DEAD),
        _A.STARTING: (_A.ALIVE, _A.RESTARTING, _A.DEAD),
        _A.ALIVE: (_A.RESTARTING, _A.DEAD),
        _A.RESTARTING: (_A.ALIVE, _A.DEAD),
    }
)

_C: Final = ClientState

CLIENT_MOVES: Final = _moves({_C.ATTACHED: (_C.LEASED,), _C.LEASED: (_C.ATTACHED,)})


class IllegalTransition(FibernbError):
    """A bug in the scheduler: something was to move in a way that its table does not know."""

    def __init__(self, thing: str, old: enum.IntEnum, new: enum.IntEnum, history: str) -> None:
        self.thing = thing
        self.old = old
        self.new = new
        super().__init__(f"{thing} cannot go from {old.name} to {new.name}; its history: {history}")
