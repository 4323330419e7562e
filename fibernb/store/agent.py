"""A process's side of the object store of its host: where large buffers go, and come from.

There is one agent a process and cluster. It calls the store when it is needed for the first time, and again when the
store has ended; what a new store does not have is gone. A forked child has agents of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from fibernb.errors import ClusterError, FibernbError, NotConnected
from fibernb.model import BlockId
from fibernb.serialize import BlockGone, Source
from fibernb.serialize.frames import ALIGNMENT_BYTES
from fibernb.store.link import StoreLink, connect
from fibernb.wire.storetalk import Described

PATIENCE_S: Final = 10.0  # for a store that has ended, or whose node is just being started
RETRY_S: Final = 0.01

R = TypeVar("R")


class StoreAgent:
    """Implements `fibernb.serialize.stores.Sink` and `Source`. May be used from any thread.

    Parameters
    ----------
    directory : of the cluster, the same one as the hub's.
    key : of the cluster.
    owner : who this process is, for people.
    inline_bytes : values whose buffers are larger go to the store.
    """

    def __init__(self, directory: str | Path, key: str, owner: str, inline_bytes: int) -> None:
        self.owner = owner
        self._directory = str(directory)
        self._key = key
        self._inline_bytes = inline_bytes
        self._pid = 0
        self._lock = threading.Lock()
        self._link: StoreLink | None = None
        self._closed = threading.Event()

    @property
    def inline_bytes(self) -> int:
        return self._inline_bytes

    def prepare(self, after_s: float = 0.0) -> None:
        """In ``after_s`` seconds have the store started and memory warmed, so that the first large value need not wait.

        Nothing happens if the agent is closed by then.
        """
        threading.Thread(target=self._prepare, args=(after_s,), name="fibernb-store", daemon=True).start()

    def _prepare(self, after_s: float) -> None:
        if not self._closed.wait(after_s):
            with suppress(FibernbError):  # who writes or reads a value is told
                self.describe()
            if self._closed.is_set():  # meanwhile: nobody else would hang up again
                self.close()

    def write(self, buffers: Sequence[memoryview]) -> tuple[BlockId, list[int]]:
        """Copy flat buffers into a new block. Returns it, and where in it they begin.

        Raises `StoreFull`, and `NotConnected` when the store cannot be reached.
        """
        offsets, size_bytes = _laid_out(buffers)
        return self._with_store(lambda link: link.write(buffers, offsets, size_bytes)), offsets

    def map(self, block: BlockId) -> memoryview:
        """The bytes of a block, read-only, which stay there as long as a view of them lives.

        Raises `BlockGone` when the store does not have it (any more).
        """
        return self._with_store(lambda link: self._map(link, block, link.map))

    @property
    def private(self) -> Source:
        """Where values come from that may be changed here: memory is shared up to the page that is written to."""
        return _PrivateSource(lambda block: self._with_store(lambda link: self._map(link, block, link.map_private)))

    def abandon(self, blocks: Sequence[BlockId]) -> None:
        """These blocks, which this process has written, will not be used after all."""
        if blocks:
            self._with_store(lambda link: link.abandon(blocks))

    def outlives(self, blocks: Sequence[BlockId]) -> bool:
        """Whether the store that these blocks were written to is still there."""
        return self._with_store(lambda link: _is_alive(link) and all(map(link.has_made, blocks)))

    def describe(self) -> Described:
        """What there is in the store, and what it may have."""
        return self._with_store(lambda link: link.describe())

    def deposit(self, fd: int, lasting: bool = False) -> int:
        """Leave a duplicate of a descriptor with the store; the ticket that anybody gets it with, once.

        Parameters
        ----------
        lasting : any number of times, until it is reclaimed or this process ends.

        Raises `ClusterError` when the store can take no more, and `NotConnected` when it cannot be reached.
        """
        ticket = self._with_store(lambda link: link.deposit(fd, lasting))
        if not ticket:
            raise ClusterError(
                "the object store of this host has as many open files as it may have: raise the limit (ulimit -n), "
                "or send fewer pipes and queues that nobody has received yet"
            )
        return ticket

    def redeem(self, ticket: int) -> int:
        """The descriptor of a ticket, which is the caller's to close.

        Raises `ClusterError` when the store does not have it (any more).
        """
        fd = self._with_store(lambda link: link.redeem(ticket))
        if fd is None:
            raise ClusterError(
                "the store of this host does not have this file descriptor: it has been received before (what has one "
                "can be unpickled once), its owner has ended, or the store was started anew"
            )
        return fd

    def reclaim(self, tickets: Sequence[int]) -> None:
        """What is left of these deposits is not needed any more."""
        if tickets:
            self._with_store(lambda link: link.reclaim(tickets))

    def close(self) -> None:
        """Hang up. Arrays that have been mapped stay."""
        self._closed.set()
        with self._lock:
            link, self._link = self._link, None
            if link is not None:
                link.close()

    @staticmethod
    def _map(link: StoreLink, block: BlockId, map_: Callable[[BlockId], memoryview]) -> memoryview:
        if not link.has_made(block):
            link.describe()  # raises if it is our store that has ended, and not the block's
            raise BlockGone([block])
        return map_(block)

    def _with_store(self, use: Callable[[StoreLink], R]) -> R:
        """Again with a new store if the one that we know has ended, or is not there yet; see `PATIENCE_S`."""
        if self._pid != os.getpid():
            self._start_anew()
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._with_link(use)
            except NotConnected:
                if time.monotonic() > deadline or not os.path.isdir(self._directory):
                    raise
            time.sleep(RETRY_S)

    def _with_link(self, use: Callable[[StoreLink], R]) -> R:
        with self._lock:
            try:
                if self._link is None:
                    self._link = connect(self._directory, self._key, self.owner)
                return use(self._link)
            except NotConnected:
                if self._link is not None:
                    self._link.close()
                    self._link = None
                raise

    def _start_anew(self) -> None:
        """In a forked child the link is the parent's, and so may be who holds the lock."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._link = None


def _is_alive(link: StoreLink) -> bool:
    """True; raises `NotConnected` if the store at the other end has gone."""
    link.describe()
    return True


class _PrivateSource:
    """Implements `fibernb.serialize.stores.Source`."""

    def __init__(self, map_: Callable[[BlockId], memoryview]) -> None:
        self.map = map_


def _laid_out(buffers: Sequence[memoryview]) -> tuple[list[int], int]:
    """Where the buffers begin, aligned, and how large the block is."""
    offsets, position = [], 0
    for view in buffers:
        position += -position % ALIGNMENT_BYTES
        offsets.append(position)
        position += view.nbytes
    return offsets, position


# ---- those of this process ------------------------------------------------------------------------------

_agents: Final[dict[tuple[int, str, str], StoreAgent]] = {}


def agent_for(directory: str | Path, key: str, owner: str, inline_bytes: int) -> StoreAgent:
    """This process's agent for the cluster in ``directory``; nothing is connected yet."""
    return _agents.setdefault((os.getpid(), str(directory), key), StoreAgent(directory, key, owner, inline_bytes))


def drop_agent(directory: str | Path, key: str) -> None:
    """The cluster has ended, or this process has left it. Arrays that have been mapped stay."""
    agent = _agents.pop((os.getpid(), str(directory), key), None)
    if agent is not None:
        agent.close()
