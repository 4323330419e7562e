"""The process that serves the object store of a host: a loop around `fibernb.store.catalog`."""

from __future__ import annotations

import logging
import os
import resource
import socket
import time
from pathlib import Path
from typing import Final, NoReturn

from fibernb.config import Config
from fibernb.errors import ConfigError, ProtocolError
from fibernb.model import Struct
from fibernb.store import memory, sizes, talk
from fibernb.store.catalog import Catalog
from fibernb.store.deposits import Deposits
from fibernb.store.files import Arena, SpillFile
from fibernb.store.orders import Answer, BringBack, Grow, Order, Shrink, SpillOut
from fibernb.store.work import Ended, Work
from fibernb.transport.protocol import Arrival, Peer
from fibernb.transport.unix import adopt
from fibernb.transport.unix_listener import UnixListener
from fibernb.wire import codec
from fibernb.wire.admission import check
from fibernb.wire.handshake import Refused
from fibernb.wire.storetalk import (
    STORE_SOCKET,
    Abandon,
    Allocate,
    Deposit,
    Deposited,
    Describe,
    Free,
    Keep,
    Pin,
    Reclaim,
    Redeem,
    Redeemed,
    Retain,
    StoreWelcome,
    Unpin,
    Withdraw,
)

MEMORY_LOOK_S: Final = 2.0  # between two looks at the host's memory, while there is some to give back
RESERVED_FILES: Final = 32  # that the store may open for itself and its links, whatever is deposited
SHORT_SHARE: Final = 0.1  # of the memory: with less that is free, what is warm but not used goes

logger: Final = logging.getLogger(__name__)


class StoreSettings(Struct, frozen=True, kw_only=True):
    """What a store has to be told."""

    directory: str  # of the cluster
    key: str
    generation: int


def main(listening: socket.socket, settings: StoreSettings, config: Config) -> None:
    """Serve until the process ends.

    Parameters
    ----------
    listening : a bound socket at which users of the store call.
    """
    listener = adopt(listening, str(Path(settings.directory, STORE_SOCKET)))
    try:
        store = _open(listener, settings, config)
    except (ConfigError, OSError) as error:
        logger.exception("the object store cannot be opened")
        _refuse_everybody(listener, f"the object store cannot be opened: {error}")
    else:
        store.run()


def _open(listener: UnixListener, settings: StoreSettings, config: Config) -> Store:
    """Raises `ConfigError` when the configured directories cannot be used, `OSError` when the system refuses."""
    accounts = memory.accounts()
    spill_place = sizes.spill_place(config, Path(settings.directory))
    limits = sizes.limits(config, accounts, sizes.arena_place(config), spill_place)
    arena = Arena(limits.arena_bytes, config.store_dir, memory.accounts)
    spill = SpillFile(spill_place.directory) if spill_place is not None and limits.spill_bytes else None
    catalog = Catalog(settings.generation, limits)
    return Store(listener, catalog, arena, Work(arena, spill, listener.wake), settings, limits.arena_bytes)


def _refuse_everybody(listener: UnixListener, reason: str) -> NoReturn:
    refused = codec.encode(Refused(kind="config", reason=reason))
    while True:
        for peer, data in listener.poll(None):
            if data is not None:
                listener.send(peer, refused)
                listener.drop(peer)


class Store:
    """Reads from the links and from its threads, tells the catalog, and has done what that orders."""

    def __init__(
        self,
        listener: UnixListener,
        catalog: Catalog,
        arena: Arena,
        work: Work,
        settings: StoreSettings,
        arena_bytes: int,
    ) -> None:
        self._listener = listener
        self._catalog = catalog
        self._deposits = Deposits(settings.generation)
        self._arena = arena
        self._work = work
        self._settings = settings
        self._arena_bytes = arena_bytes
        self._users: dict[Peer, int] = {}  # that have been let in, with the number of descriptors they were handed
        self._look_at = 0.0

    def run(self) -> None:
        while True:
            self.serve()

    def serve(self) -> None:
        """Wait for something, and see to all that there is."""
        arrivals = self._listener.poll(self._timeout_s(time.monotonic()))
        now = time.monotonic()
        for ended in self._work.ended():
            self._take_end(ended, now)
        for arrival in arrivals:
            self._take(arrival, now)
        self._tick(now)
        for order in self._catalog.take_orders():
            self._carry_out(order)

    def _timeout_s(self, now: float) -> float | None:
        times = [self._catalog.next_due(), self._look_at if self._arena.size_bytes else None]
        due = min((at for at in times if at is not None), default=None)
        return None if due is None else max(due - now, 0.0)

    def _tick(self, now: float) -> None:
        due = self._catalog.next_due()
        if due is not None and due <= now:
            self._catalog.tick(now)
        if self._look_at <= now and self._arena.size_bytes:
            self._look_at = now + MEMORY_LOOK_S
            if any(account.fraction > 1 - SHORT_SHARE for account in memory.accounts()):
                self._catalog.memory_short(now)

    # ---- users -------------------------------------------------------------------------------------------

    def _take(self, arrival: Arrival, now: float) -> None:
        peer, data = arrival
        try:
            if data is None:
                self._lose(peer, now)
            elif peer in self._users:
                self._obey(peer, talk.from_user.decode(data), now)
            else:
                self._admit(peer, data, now)
        except ProtocolError as error:
            logger.warning("a user of the store is dropped: %s", error)
            self._listener.drop(peer)
            self._lose(peer, now)

    def _admit(self, peer: Peer, data: bytes, now: float) -> None:
        hello = talk.hello.decode(data)
        refused = check(hello.credentials, self._settings.key)
        if refused is not None:
            self._listener.send(peer, codec.encode(refused))
            self._listener.drop(peer)
            return
        self._users[peer] = 0
        self._listener.limit(peer, talk.MAX_BYTES)
        self._catalog.attach(peer, hello.owner or f"process {hello.pid}", now)
        welcome = StoreWelcome(generation=self._settings.generation, arena_bytes=self._arena_bytes, pid=os.getpid())
        self._listener.send_descriptor(peer, codec.encode(welcome), self._arena.fd)

    def _lose(self, peer: Peer, now: float) -> None:
        if peer in self._users:
            del self._users[peer]
            self._catalog.detach(peer, now)
            self._deposits.detach(peer)

    def _obey(self, peer: Peer, message: object, now: float) -> None:
        match message:
            case Allocate():
                self._catalog.allocate(peer, message.request, message.size_bytes, now)
            case Pin():
                self._catalog.pin(peer, message.request, message.blocks, now)
            case Unpin():
                self._catalog.unpin(peer, message.blocks, now)
            case Abandon():
                self._catalog.abandon(peer, message.blocks, now)
            case Withdraw():
                self._catalog.withdraw(peer, message.request, now)
                self._deposits.withdraw(peer, message.request)
            case Keep():
                self._catalog.keep(message.blocks)
            case Free():
                self._catalog.free(message.blocks, now)
            case Retain():
                self._catalog.retain(message.blocks, now)
            case Describe():
                self._catalog.describe(peer, message.request)
            case _:
                self._obey_about_descriptors(peer, message)

    def _obey_about_descriptors(self, peer: Peer, message: object) -> None:
        match message:
            case Deposit():
                self._deposit(peer, message)
            case Redeem():
                self._redeem(peer, message)
            case Reclaim():
                self._deposits.reclaim(message.tickets)

    def _deposit(self, peer: Peer, message: Deposit) -> None:
        fd, ticket = self._listener.take_descriptor(peer), 0
        if fd is not None and fd < resource.getrlimit(resource.RLIMIT_NOFILE)[0] - RESERVED_FILES:
            ticket = self._deposits.add(peer, message.request, fd, message.lasting)
        elif fd is not None:
            os.close(fd)
        self._listener.send(peer, codec.encode(Deposited(request=message.request, ticket=ticket)))

    def _redeem(self, peer: Peer, message: Redeem) -> None:
        fd = self._deposits.find(message.ticket)
        if fd is None:
            self._listener.send(peer, codec.encode(Redeemed(request=message.request, number=0)))
            return
        self._users[peer] += 1
        answer = codec.encode(Redeemed(request=message.request, number=self._users[peer]))
        if not self._listener.send_descriptor(peer, answer, fd):
            raise ProtocolError("it asks for descriptors, and does not read the answers")
        self._deposits.handed_out(message.ticket)

    # ---- orders ------------------------------------------------------------------------------------------

    def _carry_out(self, order: Order) -> None:
        if isinstance(order, Answer):
            self._listener.send(order.link, codec.encode(order.message))
        else:
            self._work.begin(order)

    def _take_end(self, ended: Ended, now: float) -> None:
        order, problem = ended
        if isinstance(order, Grow):
            self._catalog.grown(self._arena.size_bytes, problem, now, ahead=order.ahead)
        elif isinstance(order, Shrink):
            self._catalog.shrunk()
        elif isinstance(order, SpillOut):
            self._catalog.spilled(order.block, problem, now)
        elif isinstance(order, BringBack):
            self._catalog.restored(order.block, problem, now)
