"""How a file descriptor travels in a pickle: it is left with the store of the host, and taken from there.

A ticket is good for one taker, so that nobody but the taker keeps what it stands for open: who waits for the end of a
pipe sees it when its users have closed it. `collecting` tells which tickets a pickle holds, so that they can be
withdrawn when it will not be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final, TypeAlias

from fibernb import config as configuration
from fibernb.client import current
from fibernb.engine import context
from fibernb.errors import ClusterError
from fibernb.hub.connection import read_connection
from fibernb.model import rank_name
from fibernb.multiprocessing.places import Place, home, key_at, place_of
from fibernb.store.agent import StoreAgent, agent_for

KIND: Final = "pipe, queue or array"

Ticket: TypeAlias = Place  # picklable

_collected: Final[ContextVar[list[Ticket] | None]] = ContextVar("tickets", default=None)
_engines_agent: tuple[int, StoreAgent | None] = (0, None)  # of which process


def deposit(fd: int, *, lasting: bool = False) -> Ticket:
    """Leave a duplicate of a descriptor for whoever has the ticket.

    Parameters
    ----------
    lasting : the ticket may be redeemed any number of times, while this process lives and until it is withdrawn.

    Raises `ClusterError` when the store has no room for it or cannot be reached.
    """
    ticket = place_of(KIND, _agent().deposit(fd, lasting))
    collected = _collected.get()
    if collected is not None and not lasting:
        collected.append(ticket)
    return ticket


def redeem(ticket: Ticket) -> int:
    """The descriptor of a ticket, which is the caller's to close.

    Raises `ClusterError` on another host, and when it has been redeemed or withdrawn.
    """
    return _agent().redeem(int(key_at(ticket)))


def withdraw(*tickets: Ticket) -> None:
    """Have the store close what has not been redeemed, and hand out no more.

    Harmless when there is nothing left, or when the cluster has ended.
    """
    if tickets and (context.current() is not None or current.session is not None):
        with suppress(ClusterError):  # it has ended, and its store with it
            _agent().reclaim([int(key_at(ticket)) for ticket in tickets])


@contextmanager
def collecting() -> Iterator[list[Ticket]]:
    """The tickets, good for one taker, of what this thread deposits meanwhile.

    What is pickled may never be read: its reader was killed first. Who learns of that withdraws the tickets.
    """
    tickets: list[Ticket] = []
    token = _collected.set(tickets)
    try:
        yield tickets
    finally:
        _collected.reset(token)


def _agent() -> StoreAgent:
    """That of this process. An engine needs no session for it."""
    if context.current() is not None:
        return _agent_of_engine(context.current())
    store = current.require().store
    assert isinstance(store, StoreAgent)
    return store


def _agent_of_engine(engine: context.EngineContext | None) -> StoreAgent:
    global _engines_agent
    pid, agent = _engines_agent
    if agent is None or pid != os.getpid():
        assert engine is not None
        connection, settings = read_connection(home()), configuration.saved(engine.directory)
        agent = agent_for(connection.directory, connection.key, rank_name(engine.rank), settings.inline_bytes)
        _engines_agent = os.getpid(), agent
    return agent
