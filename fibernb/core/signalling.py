"""Signals to the processes of actors.

An actor that has no process yet ends as if the signal had killed it. After a restart of the hub a signal may come
before the actor is found again: it waits for it.
"""

from __future__ import annotations

from fibernb.core.acting import end_actor, stop_engine
from fibernb.core.actors import Actor
from fibernb.core.board import Board
from fibernb.core.commands import SignalEngine
from fibernb.core.messages import SignalActor
from fibernb.core.states import ActorState


def signal_actor(board: Board, message: SignalActor, now: float) -> None:
    """Pass a signal on, if the actor has not ended."""
    actor = board.actors.get(message.actor)
    if actor is not None and actor.state is ActorState.ALIVE:
        _send(board, actor, message.signal)
    elif board.unsettled:
        board.early_signals.append(message)
    elif actor is not None and not actor.dead:
        reason = f"signal {message.signal} came before it had begun"
        end_actor(board, actor, reason, None, -message.signal)
        stop_engine(board, actor, reason, now)


def send_early(board: Board, now: float) -> None:
    """Actors may have been found that signals wait for, or will not be found any more."""
    early, board.early_signals = board.early_signals, []
    for message in early:
        signal_actor(board, message, now)


def _send(board: Board, actor: Actor, signal: int) -> None:
    engine = board.seats[actor.rank].engine
    assert engine is not None
    board.commands.append(SignalEngine(engine=engine.id, signal=signal))
