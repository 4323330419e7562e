"""What waits in the catalog: blocks for room in the arena, and processes for blocks."""

from __future__ import annotations

from fibernb.model import BlockId
from fibernb.store.blocks import Block
from fibernb.store.orders import LinkId
from fibernb.store.windows import Window


class Claim:
    """A block that needs room: a new one, or one that comes back from the spill file."""

    __slots__ = ("block", "deadline", "leaving", "link", "request", "window")

    def __init__(self, block: Block, link: LinkId | None = None, request: int = 0) -> None:
        self.block = block
        self.link = link  # who allocates; None: the block comes back
        self.request = request
        self.deadline: float | None = None  # after which there is no hope of room; None: things move still
        self.window: Window | None = None  # that will be its own
        self.leaving: set[BlockId] = set()  # what has to leave the window first

    @property
    def is_idle(self) -> bool:
        """Nobody waits for the room any more."""
        return self.block.pins == 0


class Wait:
    """A process that wants blocks pinned of which some are not in memory."""

    __slots__ = ("away", "blocks", "link", "request")

    def __init__(self, link: LinkId, request: int, blocks: list[Block], away: set[BlockId]) -> None:
        self.link = link
        self.request = request
        self.blocks = blocks
        self.away = away
