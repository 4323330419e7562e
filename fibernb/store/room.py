"""The two files that blocks stand in: the arena, which grows as it is needed, and the spill file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fibernb.model import Struct
from fibernb.store.allocator import Allocator, Extent, rounded
from fibernb.store.blocks import Block
from fibernb.store.windows import Segment, Window, best_window

GROWTH_RETRY_S: Final = 1.0  # after the system has refused more memory
STEP_BYTES: Final = 64 * 2**20  # by which the arena grows ahead of need


class Limits(Struct, frozen=True, kw_only=True):
    """The most that a store may use, and why."""

    arena_bytes: int
    spill_bytes: int
    ahead_bytes: int  # of the arena, kept warm for what comes next
    arena_reason: str = ""  # for people
    spill_reason: str = ""


class Room:
    """Finds room in the arena, and makes it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.arena = Allocator()
        self.spill = Allocator()
        self.growth_problem = ""
        self.spill_problem = ""
        self.retry_at = 0.0  # when the arena may grow again
        self._growing = False
        self._growing_ahead = False  # which may well take long, and nobody waits for it
        self._shrinking = False
        self._ahead_at = 0.0

    # ---- the arena grows ---------------------------------------------------------------------------------

    def growth_for(self, size_bytes: int, now: float) -> int | None:
        """The size to which the arena has to grow for a block; None when it cannot. 0: it grows already."""
        if self._growing:
            return 0
        target = self.arena.size_bytes + rounded(size_bytes) - self.arena.free_at_end_bytes
        if target > self.limits.arena_bytes or now < self.retry_at:
            return None
        self._growing = True
        return target

    def growth_ahead(self, now: float) -> int | None:
        """The size to which the arena should grow for what may come; None for not now."""
        lacks = self.arena.largest_free_bytes < self.limits.ahead_bytes
        target = min(self.arena.size_bytes + STEP_BYTES, self.limits.arena_bytes)
        busy = self._growing or self._growing_ahead or self._shrinking
        if busy or not lacks or now < self._ahead_at or target <= self.arena.size_bytes:
            return None
        self._growing_ahead = True
        return target

    def grown(self, size_bytes: int, problem: str, now: float, *, ahead: bool) -> None:
        """What the arena has got; a problem counts for a while."""
        self.arena.extend(size_bytes)
        if problem:
            self._ahead_at = now + GROWTH_RETRY_S
        if ahead:
            self._growing_ahead = False
        else:
            self.growth_problem = problem
            self.retry_at = self._ahead_at if problem else 0.0
            self._growing = False

    def shrink(self, now: float) -> int | None:
        """Give up what is free at the end of the arena, unless it is just growing. Returns the size to shrink to."""
        self._ahead_at = now + GROWTH_RETRY_S
        before = self.arena.size_bytes
        if self._growing or self._growing_ahead or self.arena.cut() == before:
            return None
        self._shrinking = True
        return self.arena.size_bytes

    def shrunk(self) -> None:
        """The memory has been given back."""
        self._shrinking = False

    # ---- blocks move out ---------------------------------------------------------------------------------

    def window_for(self, size_bytes: int, blocks: Iterable[Block], *, exchange: bool = False) -> Window | None:
        """Take a window from which all blocks can move to the spill file; they have their places there then.

        None when there is none. The blocks move until `close_window`. ``exchange``: for a block that leaves the spill
        file in return, so what stands there may pass the limit. Else nothing would come back once both files are full.
        """
        movable = {block.id: block for block in blocks if block.is_movable}
        window = best_window(self._segments(movable.values()), rounded(size_bytes))
        if window is None or not self._reserve_spill([movable[id_] for id_ in window.blocks], exchange):
            return None
        for segment in window.segments:
            if segment.block is None:
                self.arena.take(segment.extent)
        return window

    def close_window(self, window: Window, staying: Iterable[int]) -> None:
        """Give back what the window has of the arena, but for the blocks at these offsets."""
        stay = frozenset(staying)
        for segment in window.segments:
            if segment.extent.offset not in stay:
                self.arena.free(segment.extent.offset)

    def take(self, offset: int, size_bytes: int) -> None:
        """Use a part of the arena that is free."""
        self.arena.take(Extent(offset, rounded(size_bytes)))

    def _segments(self, blocks: Iterable[Block]) -> list[Segment]:
        segments = [Segment(extent) for extent in self.arena.free_extents()]
        for block in blocks:
            assert block.offset is not None
            segments.append(Segment(Extent(block.offset, rounded(block.size_bytes)), block.id, block.last_use))
        return segments

    def _reserve_spill(self, blocks: Sequence[Block], exchange: bool) -> bool:
        """Places in the spill file for all of them, or none."""
        needed = sum(rounded(block.size_bytes) for block in blocks)
        fits = exchange or self.spill.used_bytes + needed <= self.limits.spill_bytes
        if self.spill_problem or not fits:
            return False
        for block in blocks:
            block.spill = self._spill_place(block.size_bytes)
        return True

    def _spill_place(self, size_bytes: int) -> int:
        """The spill file has holes, so that it may well be longer than what may be used of it."""
        offset = self.spill.allocate(size_bytes)
        if offset is None:
            self.spill.extend(self.spill.size_bytes + rounded(size_bytes) - self.spill.free_at_end_bytes)
            offset = self.spill.allocate(size_bytes)
        assert offset is not None
        return offset

    def leave_spill(self, block: Block) -> Extent:
        """The block has no place in the spill file any more. Returns where that was."""
        assert block.spill is not None
        extent = self.spill.free(block.spill)
        block.spill = None
        self.spill_problem = ""
        return extent
