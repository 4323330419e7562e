"""One process's link to a store, with the arena mapped: asks, waits for the answer, gives pins back."""

from __future__ import annotations

import os
import pickle
import queue
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from fibernb.errors import AuthError, ConfigError, FibernbError, NotConnected, ProtocolError, StoreFull, VersionMismatch
from fibernb.model import COUNTER_BITS, BlockId
from fibernb.serialize import BlockGone
from fibernb.store import talk
from fibernb.store.mapping import Mapping
from fibernb.transport.descriptors import DescriptorLink, dial_for_descriptor
from fibernb.wire import codec
from fibernb.wire.admission import credentials
from fibernb.wire.handshake import Refused
from fibernb.wire.storetalk import (
    STORE_SOCKET,
    Abandon,
    Allocate,
    Allocated,
    Deposit,
    Deposited,
    Describe,
    Described,
    Full,
    Pin,
    Pinned,
    Place,
    Reclaim,
    Redeem,
    Redeemed,
    StoreHello,
    StoreWelcome,
    Unpin,
    Withdraw,
)

ANSWER_S: Final = 30.0  # in which a store that has just been forked must have said welcome
GATHER_S: Final = 0.005  # how long pins that are not needed any more wait for others, or to be needed again

_REFUSALS: Final[dict[str, type[FibernbError]]] = {"auth": AuthError, "version": VersionMismatch}

A = TypeVar("A", Allocated, Pinned, Described, Deposited, Redeemed)


class _Pin(weakref.ref[Any]):
    """A pin of a block, for as long as the object lives that stands for its memory."""

    __slots__ = ("place",)
    place: Place


class StoreLink:
    """Used by one thread at a time, but for the return of pins, which happens by itself.

    Raises `NotConnected` from every method when the store has gone.

    A KeyboardInterrupt may end a request anywhere. That request is withdrawn then, whatever has become of it. For the
    same reason finalizers run no Python code here: CPython would drop an interrupt that strikes there, and the pin with
    it.
    """

    def __init__(self, link: DescriptorLink, welcome: StoreWelcome, fd: int) -> None:
        self.generation = welcome.generation
        self._link = link
        try:
            self._mapping = Mapping(fd, welcome.arena_bytes)
        finally:
            os.close(fd)
        self._last_request = 0
        self._unfinished = 0  # the request under way, or one that was interrupted
        self._pins: dict[BlockId, _Pin] = {}  # those that the store has not been told the end of
        self._returning = threading.Lock()  # held to change `_pins`, or to rely on one
        self._ended: queue.SimpleQueue[_Pin | None] = queue.SimpleQueue()
        self._returner: threading.Thread | None = None

    # ---- blocks ------------------------------------------------------------------------------------------

    def write(self, buffers: Sequence[memoryview], offsets: Sequence[int], size_bytes: int) -> BlockId:
        """A new block with these buffers in it. Raises `StoreFull`."""
        allocated = self._ask(Allocate(request=self._next_request(), size_bytes=size_bytes), Allocated)
        self._mapping.fill(allocated.offset, buffers, offsets)
        self._tell(Unpin(blocks=[allocated.block]))
        self._unfinished = 0
        return allocated.block

    def map(self, block: BlockId) -> memoryview:
        """The memory of a block, pinned while it is used. Raises `BlockGone`, `StoreFull`."""
        return pickle.PickleBuffer(self._owner_of(block)).raw().toreadonly()

    def has_made(self, block: BlockId) -> bool:
        """Whether it was this store that gave out the block, be it still there or not."""
        return block >> COUNTER_BITS == self.generation

    def map_private(self, block: BlockId) -> memoryview:
        """As `map`, but writable: pages are shared until this process writes to them, and its own from then on."""
        owner = self._owner_of(block)
        place = self._pins[block].place
        return self._mapping.private(place.offset, place.size_bytes, owner)

    def abandon(self, blocks: Sequence[BlockId]) -> None:
        self._tell(Abandon(blocks=list(blocks)))

    def describe(self) -> Described:
        described = self._ask(Describe(request=self._next_request()), Described)
        self._unfinished = 0
        return described

    # ---- descriptors -------------------------------------------------------------------------------------

    def deposit(self, fd: int, lasting: bool) -> int:
        """The ticket for a duplicate of this descriptor; 0 when the store can take no more of them."""
        request = Deposit(request=self._next_request(), lasting=lasting)
        self._unfinished = request.request
        self._link.send_with(codec.encode(request), fd)
        ticket = self._answer(request.request, Deposited).ticket
        self._unfinished = 0
        return ticket

    def redeem(self, ticket: int) -> int | None:
        """The descriptor of a ticket, which is the caller's now; None when the store does not have it."""
        redeemed = self._ask(Redeem(request=self._next_request(), ticket=ticket), Redeemed)
        fd = self._link.take_descriptor(redeemed.number) if redeemed.number else None
        self._unfinished = 0
        return fd

    def reclaim(self, tickets: Sequence[int]) -> None:
        self._tell(Reclaim(tickets=list(tickets)))

    def close(self) -> None:
        """Hang up; while arrays live that have been mapped, the link stays for their pins."""
        if self._returner is None:
            self._link.close()
        self._ended.put(None)

    def _owner_of(self, block: BlockId) -> Any:
        owner = self._owner_again(block)
        return self._pinned(block) if owner is None else owner

    def _pinned(self, block: BlockId) -> Any:
        self._start_returner()
        pinned = self._ask(Pin(request=self._next_request(), blocks=[block]), Pinned)
        if pinned.lost:
            self._unfinished = 0
            raise BlockGone(pinned.lost)
        with self._returning:
            owner = self._owner(pinned.places[0])
            self._unfinished = 0
        return owner

    def _owner_again(self, block: BlockId) -> Any:
        """What stands for the memory of a block that is pinned, or was a moment ago; None if it is not."""
        with self._returning:
            pin = self._pins.get(block)
            if pin is None:
                return None
            owner = pin()
            return self._owner(pin.place) if owner is None else owner

    def _owner(self, place: Place) -> Any:
        owner = self._mapping.owner(place.offset, place.size_bytes)
        pin = _Pin(owner, self._ended.put)
        pin.place = place  # no call from here on: an interrupt comes before all of this, or after it
        self._pins[place.block] = pin
        return owner

    # ---- pins that have ended ----------------------------------------------------------------------------

    def _start_returner(self) -> None:
        if self._returner is None:
            self._returner = threading.Thread(target=self._return_pins, name="fibernb-pins", daemon=True)
            self._returner.start()

    def _return_pins(self) -> None:
        """In a thread of its own: an object can go anywhere, even inside of a send, and can only leave a note there."""
        closes = False
        while not (closes and self._has_no_pins()):
            ended = [self._ended.get(), *self._more_ended()]
            closes |= None in ended
            blocks = [pin.place.block for pin in ended if pin is not None and self._ends(pin)]
            if blocks:
                with suppress(NotConnected):  # then the pins are gone as well
                    self._tell(Unpin(blocks=blocks))
        self._link.close()

    def _ends(self, pin: _Pin) -> bool:
        """Whether the store is to be told; not if another has taken its place."""
        block = pin.place.block
        with self._returning:
            if self._pins.get(block) is not pin:
                return False
            del self._pins[block]
            return True

    def _more_ended(self) -> Iterator[_Pin | None]:
        with suppress(queue.Empty):
            while True:
                yield self._ended.get(timeout=GATHER_S)

    def _has_no_pins(self) -> bool:
        return all(pin() is None for pin in list(self._pins.values()))

    # ---- asking ------------------------------------------------------------------------------------------

    def _next_request(self) -> int:
        """The number of a new request; the last one is withdrawn if it has not come to its end."""
        if self._unfinished:
            self._tell(Withdraw(request=self._unfinished))
            self._unfinished = 0
        self._last_request += 1
        return self._last_request

    def _tell(self, message: Abandon | Unpin | Withdraw | Reclaim) -> None:
        self._link.send(codec.encode(message))

    def _ask(self, message: Allocate | Pin | Describe | Redeem, kind: type[A]) -> A:
        data = codec.encode(message)
        self._unfinished = message.request
        self._link.send(data)
        return self._answer(message.request, kind)

    def _answer(self, request: int, kind: type[A]) -> A:
        while True:
            for data in self._link.receive():
                answer = talk.to_user.decode(data)
                if isinstance(answer, StoreWelcome | Refused):
                    raise ProtocolError(f"the store says {type(answer).__name__} in the middle of the talk")
                if answer.request != request:
                    continue  # of a request that has been withdrawn
                if isinstance(answer, Full):
                    self._unfinished = 0
                    raise StoreFull(answer.reason)
                if isinstance(answer, kind):
                    return answer


def connect(directory: str, key: str, owner: str) -> StoreLink:
    """A link to the store of the cluster in ``directory``, which starts with the first one.

    Raises `NotConnected` when there is none, `AuthError` or `VersionMismatch` when it refuses us, and `ConfigError`
    when it cannot be opened with the cluster's configuration.
    """
    path = str(Path(directory, STORE_SOCKET))
    hello = codec.encode(StoreHello(credentials=credentials(key), pid=os.getpid(), owner=owner))
    link, data, fd = dial_for_descriptor(path, hello, talk.MAX_BYTES, ANSWER_S)
    answer = talk.to_user.decode(data)
    if isinstance(answer, StoreWelcome) and fd is not None:
        return StoreLink(link, answer, fd)
    link.close()
    if isinstance(answer, Refused):
        raise _REFUSALS.get(answer.kind, ConfigError)(answer.reason)
    raise NotConnected(f"what listens at {path} is no object store")
