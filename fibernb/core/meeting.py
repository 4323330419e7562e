"""Which engine a client may send calls to itself.

A call that somebody waits for, with nothing else under way, needs no scheduler: it may go straight to its actor, or to
an engine that has nothing to do. That is *lent* to the client then, which is a matter of politeness only: it is the
last one to get other work, and with the first of that the loan is over. A call that turns out to be more than that (it
takes long, prints, fails, or its engine dies) is told to the hub after all: see ``begun_on`` in
`fibernb.core.submitting`.
"""

from __future__ import annotations

from fibernb.core.board import Board
from fibernb.core.clients import Client
from fibernb.core.messages import Meet, Met, OpenDoor
from fibernb.core.nodes import SEAT_MILLI
from fibernb.core.seats import Engine
from fibernb.core.states import ActorState
from fibernb.model import ObjectId


def meet(board: Board, client: Client, message: Meet) -> None:
    """A client asks for an engine to send calls to."""
    engine = _of_actor(board, message.actor) if message.actor else _idle(board, client)
    if engine is not None:
        board.tell_engine(engine, OpenDoor())
    board.tell_client(client, Met(request=message.request, engine=0 if engine is None else engine.id))


def _of_actor(board: Board, id_: ObjectId) -> Engine | None:
    """The engine of an actor that runs calls in its main thread."""
    actor = board.actors.get(id_)
    if actor is None or actor.state is not ActorState.ALIVE:
        return None
    options = actor.create.options
    if options.is_process or options.groups or (options.max_concurrency > 1 and not options.is_async):
        return None
    engine = board.seats[actor.rank].engine
    return engine if engine is not None and engine.usable else None


def _idle(board: Board, client: Client) -> Engine | None:
    """The highest seat that has nothing to do and is lent to nobody else."""
    for rank in reversed(board.idle.in_order()):
        engine = board.engine_of(rank)
        borrower = board.clients.get(engine.lent_to)
        if borrower not in (None, client) or board.nodes[engine.node].free_milli() < SEAT_MILLI:
            continue
        engine.lent_to = client.id
        return engine
    return None
