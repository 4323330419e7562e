"""What is said on the links of a host's object store, which a process of its own serves.

Every process that writes or reads large values has one link to it, opened at the first need, on which it asks and
waits; the hub has one as well, on which it only tells. Who breaks off gives back its pins, and loses the blocks that
the hub has not been told to keep.

The store also keeps file descriptors for others to take, which is how one end of a pipe travels between processes.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from fibernb.core.messages import Message
from fibernb.model import BlockId, Struct
from fibernb.wire.handshake import Credentials

STORE_SOCKET: Final = "store.sock"  # in the directory of the cluster


class StoreHello(Message, frozen=True, kw_only=True):
    """``owner``: who it is, for people, such as "client 12ab" or "rank 3"."""

    credentials: Credentials
    pid: int
    owner: str = ""


class Allocate(Message, frozen=True, kw_only=True):
    """Room for a new block, which is pinned until `Unpin`. Answered by `Allocated` or `Full`."""

    request: int
    size_bytes: int


class Pin(Message, frozen=True, kw_only=True):
    """Keep these blocks in memory and where they are, until `Unpin`. Answered by `Pinned`, once they are in memory."""

    request: int
    blocks: list[BlockId]


class Unpin(Message, frozen=True, kw_only=True):
    """Undoes one `Pin` or `Allocate` of each."""

    blocks: list[BlockId]


class Abandon(Message, frozen=True, kw_only=True):
    """Blocks that were allocated by this process and will not be used."""

    blocks: list[BlockId]


class Withdraw(Message, frozen=True, kw_only=True):
    """Undo what this `Allocate`, `Pin` or `Deposit`, the last of this link, has done or would still do; a block that
    it has allocated will not be used. Said by who was interrupted, and does not know how far the request has come.
    """

    request: int


class Keep(Message, frozen=True, kw_only=True):
    """From the hub: these belong to objects from now on."""

    blocks: list[BlockId]


class Free(Message, frozen=True, kw_only=True):
    """From the hub: not needed any more. What is pinned goes with its last pin."""

    blocks: list[BlockId]


class Retain(Message, frozen=True, kw_only=True):
    """From a hub that was started anew: of all blocks that were kept, only these are needed."""

    blocks: list[BlockId]


class Describe(Message, frozen=True, kw_only=True):
    """Answered by `Described`."""

    request: int


class Deposit(Message, frozen=True, kw_only=True):
    """Keep the descriptor that comes along. Answered by `Deposited`.

    It is handed out once. ``lasting``: as often as somebody asks, until its depositor reclaims it or breaks off.
    """

    request: int
    lasting: bool = False


class Redeem(Message, frozen=True, kw_only=True):
    """Hand out a descriptor that was deposited. Answered by `Redeemed`."""

    request: int
    ticket: int


class Reclaim(Message, frozen=True, kw_only=True):
    """These descriptors are not to be handed out any more; harmless when they have been."""

    tickets: list[int]


class StoreWelcome(Message, frozen=True, kw_only=True):
    """The arena is a file whose descriptor comes along; it is to be mapped whole."""

    generation: int
    arena_bytes: int
    pid: int


class Allocated(Message, frozen=True, kw_only=True):
    request: int
    block: BlockId
    offset: int  # bytes from the beginning of the arena


class Full(Message, frozen=True, kw_only=True):
    request: int
    reason: str  # with the numbers, and what to do


class Place(Struct, frozen=True, kw_only=False):
    block: BlockId
    offset: int
    size_bytes: int


class Pinned(Message, frozen=True, kw_only=True):
    """``lost``: blocks that this store does not have (any more); then nothing was pinned."""

    request: int
    places: list[Place]
    lost: list[BlockId] = []


class Described(Message, frozen=True, kw_only=True):
    request: int
    arena_bytes: int  # the most that may be used
    used_bytes: int  # by blocks in memory
    warm_bytes: int  # of the arena that the system has given us so far
    spilled_bytes: int
    spill_limit_bytes: int
    blocks: int
    pinned: dict[str, int]  # bytes by owner


class Deposited(Message, frozen=True, kw_only=True):
    request: int
    ticket: int  # 0: the store could not take it, being out of descriptors


class Redeemed(Message, frozen=True, kw_only=True):
    """``number`` of the descriptor that comes along, among those that this link has been sent; 0: there is none."""

    request: int
    number: int


StoreRequest: TypeAlias = (
    Allocate | Pin | Unpin | Abandon | Withdraw | Keep | Free | Retain | Describe | Deposit | Redeem | Reclaim
)
StoreAnswer: TypeAlias = StoreWelcome | Allocated | Full | Pinned | Described | Deposited | Redeemed
