"""What the catalog wants done; `fibernb.store.process` does it."""

from __future__ import annotations

from typing import TypeAlias

from fibernb.model import BlockId, Struct
from fibernb.store.allocator import Extent
from fibernb.wire.storetalk import Allocated, Described, Full, Pinned

LinkId: TypeAlias = int


class Answer(Struct, frozen=True, kw_only=True):
    link: LinkId
    message: Allocated | Full | Pinned | Described


class Grow(Struct, frozen=True, kw_only=True):
    """Give the arena memory up to this size. Answered by `Catalog.grown`."""

    size_bytes: int
    ahead: bool = False  # of need: only where there is plenty


class Shrink(Struct, frozen=True, kw_only=True):
    """Give back the memory of the arena behind this size. Answered by `Catalog.shrunk`."""

    size_bytes: int


class SpillOut(Struct, frozen=True, kw_only=True):
    """Copy from the arena to the spill file. Answered by `Catalog.spilled`."""

    block: BlockId
    source: Extent
    target: int


class BringBack(Struct, frozen=True, kw_only=True):
    """Copy from the spill file to the arena. Answered by `Catalog.restored`."""

    block: BlockId
    source: Extent
    target: int


class Punch(Struct, frozen=True, kw_only=True):
    """Give this part of the spill file back to the disk."""

    extent: Extent


Order: TypeAlias = Answer | Grow | Shrink | SpillOut | BringBack | Punch
