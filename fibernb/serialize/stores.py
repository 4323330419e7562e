"""What packing and loading ask of a host's object store; `fibernb.store.agent` has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fibernb.errors import FibernbError
from fibernb.model import BlockId


class BlockGone(FibernbError):
    """These blocks are not in the store any more, nor will they be: the values must be made again."""

    def __init__(self, blocks: Sequence[BlockId]) -> None:
        self.blocks = list(blocks)
        super().__init__(self.blocks)

    def __str__(self) -> str:
        return f"the object store of this host has lost block {', '.join(map(hex, self.blocks))}"


class Sink(Protocol):
    """Where large buffers go."""

    @property
    def inline_bytes(self) -> int:
        """Values whose buffers are larger than this, taken together, go to the store."""

    def write(self, buffers: Sequence[memoryview]) -> tuple[BlockId, list[int]]:
        """Copy flat buffers of bytes into one new block; where in it each of them begins, aligned to 64 bytes.

        Raises `StoreFull` when there is no room for them, neither in memory nor on disk.
        """


class Source(Protocol):
    """Where they come back from."""

    def map(self, block: BlockId) -> memoryview:
        """The block, read-only, which stays where it is as long as something refers to the view's memory.

        Raises `BlockGone` when there is no such block.
        """
