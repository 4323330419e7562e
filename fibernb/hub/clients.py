"""The driver's side of the clients: which link belongs to which, and what they send."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from fibernb.core.commands import TellClient
from fibernb.core.events import ClientAttached, ClientGone
from fibernb.core.messages import HubStops, Status
from fibernb.core.scheduler import Scheduler
from fibernb.hub.switchboard import Switchboard
from fibernb.model import ClientId
from fibernb.transport import Peer
from fibernb.wire import codec
from fibernb.wire.handshake import ClientHello

TAKEN: Final = "another process uses this client number; choose another one"


class _Client:
    """A client that is attached, or (without a peer) whose lease runs."""

    __slots__ = ("instance", "peer")

    def __init__(self, peer: Peer, instance: str) -> None:
        self.peer: Peer | None = peer
        self.instance = instance


class Clients:
    """All clients that the scheduler knows."""

    def __init__(self, board: Switchboard, scheduler: Scheduler, clock: Callable[[], float], node: str) -> None:
        self._board = board
        self._scheduler = scheduler
        self._clock = clock
        self._node = node
        self._started = clock()
        self._clients: dict[ClientId, _Client] = {}

    def is_taken(self, hello: ClientHello) -> bool:
        """Whether another process has this client number."""
        known = self._clients.get(hello.client)
        return known is not None and known.instance != hello.instance

    def attach(self, peer: Peer, hello: ClientHello) -> None:
        """Take in a client, or a new link of one, whose old link counts no more."""
        known = self._clients.get(hello.client)
        if known is not None:
            self._board.drop(known.peer)
        self._clients[hello.client] = _Client(peer, hello.instance)
        event = ClientAttached(client=hello.client, lease_s=hello.lease_s, resumes=hello.resumes, engine=hello.engine)
        self._scheduler.handle(event, self._clock())

    def hear(self, client: ClientId, peer: Peer, data: bytes | None) -> None:
        known = self._clients.get(client)
        if known is None or known.peer != peer:
            return
        if data is None:
            known.peer = None
            self._scheduler.handle(ClientGone(client=client), self._clock())
        else:
            self._scheduler.client_message(client, codec.from_client.decode(data), self._clock())

    def hearer(self, peer: Peer, hello: ClientHello) -> Callable[[bytes | None], None]:
        return partial(self.hear, hello.client, peer)

    def tell(self, command: TellClient) -> None:
        known = self._clients.get(command.client)
        if known is not None:
            message = command.message
            self._board.send(known.peer, self._completed(message) if isinstance(message, Status) else message)

    def drop(self, client: ClientId) -> None:
        known = self._clients.pop(client, None)
        if known is not None:
            self._board.drop(known.peer)

    def say_farewell(self, reason: str) -> None:
        for known in self._clients.values():
            self._board.send(known.peer, HubStops(reason=reason))

    def _completed(self, status: Status) -> Status:
        """With what only the driver knows."""
        return msgspec.structs.replace(
            status,
            refused=status.refused + self._board.refused,
            uptime_s=self._clock() - self._started,
            node=self._node,
            pid=os.getpid(),
        )
