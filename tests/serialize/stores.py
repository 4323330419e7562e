"""A store in memory."""

from __future__ import annotations

from collections.abc import Sequence

from fibernb.model import BlockId
from fibernb.serialize import BlockGone


class MemoryStore:
    """Implements `fibernb.serialize.stores.Sink` and `Source`."""

    def __init__(self, inline_bytes: int = 10_000) -> None:
        self.inline_bytes = inline_bytes
        self.blocks: dict[BlockId, bytes] = {}

    def write(self, buffers: Sequence[memoryview]) -> tuple[BlockId, list[int]]:
        data, offsets = bytearray(), []
        for view in buffers:
            assert view.format == "B"
            data += bytes(-len(data) % 64)
            offsets.append(len(data))
            data += view
        block = len(self.blocks) + 2**40
        self.blocks[block] = bytes(data)
        return block, offsets

    def map(self, block: BlockId) -> memoryview:
        if block not in self.blocks:
            raise BlockGone([block])
        return memoryview(self.blocks[block])
