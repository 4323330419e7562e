"""Blocks, and the links whose pins keep them where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fibernb.model import COUNTER_BITS, BlockId
from fibernb.store.orders import LinkId


class Block:
    """A piece of the arena, or of the spill file while it is not needed."""

    __slots__ = (
        "claimed",
        "home",
        "id",
        "kept",
        "last_use",
        "moving",
        "offset",
        "pins",
        "size_bytes",
        "spill",
        "wanted",
    )

    def __init__(self, id_: BlockId, size_bytes: int, home: LinkId, last_use: int) -> None:
        self.id = id_
        self.size_bytes = size_bytes
        self.home: LinkId | None = home  # of its writer, which has to answer for it while it is not kept
        self.kept = False  # by the hub
        self.wanted = True  # else it goes with its last pin
        self.pins = 0
        self.offset: int | None = None  # in the arena
        self.spill: int | None = None  # offset in the spill file
        self.moving = False  # between the two
        self.claimed = False  # waits for room in the arena
        self.last_use = last_use

    @property
    def is_settled(self) -> bool:
        return self.offset is not None and not self.moving

    @property
    def is_movable(self) -> bool:
        return self.is_settled and not self.pins and self.wanted


class Request(NamedTuple):
    """What a process asked for last, and what that has pinned."""

    number: int = 0
    blocks: tuple[Block, ...] = ()
    is_new: bool = False  # the blocks are new ones


class Link:
    """A process that uses the store."""

    __slots__ = ("home", "last", "owner", "pins")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.last = Request()
        self.pins: dict[BlockId, int] = {}
        self.home: set[BlockId] = set()


class Blocks:
    """All blocks of a store and all links to it."""

    def __init__(self, generation: int) -> None:
        self._next = (generation << COUNTER_BITS) + 1
        self._clock = 0
        self._by_id: dict[BlockId, Block] = {}
        self.links: dict[LinkId, Link] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._by_id.values())

    def get(self, block: BlockId) -> Block | None:
        return self._by_id.get(block)

    def known(self, blocks: Iterable[BlockId]) -> list[Block]:
        """Those that there are."""
        return [self._by_id[block] for block in blocks if block in self._by_id]

    def attach(self, link: LinkId, owner: str) -> None:
        self.links[link] = Link(owner)

    def detach(self, link: LinkId) -> list[Block]:
        """A link has gone, with its pins. Returns the blocks that it had pinned, and those that it had written."""
        gone = self.links[link]
        pinned, written = self.known(gone.pins), self.known(gone.home)
        for block in pinned:
            block.pins -= gone.pins[block.id]
        for block in written:
            block.home = None
        del self.links[link]
        return [*pinned, *written]

    def make(self, size_bytes: int, home: LinkId) -> Block:
        """A new block, pinned once by its writer."""
        block = Block(self._next, size_bytes, home, self._clock)
        self._next += 1
        self._by_id[block.id] = block
        self.links[home].home.add(block.id)
        self.pin(home, block)
        return block

    def forget(self, block: Block) -> None:
        self.set_home(block, None)
        self._by_id.pop(block.id, None)

    def set_home(self, block: Block, home: LinkId | None) -> None:
        if block.home is not None:
            self.links[block.home].home.discard(block.id)
        block.home = home

    def pin(self, link: LinkId, block: Block) -> None:
        self._clock += 1
        block.last_use = self._clock
        block.pins += 1
        pins = self.links[link].pins
        pins[block.id] = pins.get(block.id, 0) + 1

    def unpin(self, link: LinkId, block: Block) -> None:
        """Undo one pin of this link, if it has one."""
        pins = self.links[link].pins
        count = pins.get(block.id, 0)
        if count > 1:
            pins[block.id] = count - 1
        elif count:
            del pins[block.id]
        block.pins -= bool(count)

    def pinned_bytes(self) -> dict[str, int]:
        """In memory, by owner."""
        sums: dict[str, int] = {}
        for link in self.links.values():
            held = sum(block.size_bytes for block in self.known(link.pins) if block.offset is not None)
            if held:
                sums[link.owner] = sums.get(link.owner, 0) + held
        return sums
