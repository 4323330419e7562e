"""Where room can be made: the run of neighbouring extents whose blocks have been unused for longest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from fibernb.model import BlockId
from fibernb.store.allocator import Extent


class Segment(NamedTuple):
    """A free extent, or that of a block which may be moved away."""

    extent: Extent
    block: BlockId | None = None
    last_use: int = 0  # the higher, the later


class Window(NamedTuple):
    """Neighbours that together are large enough."""

    offset: int
    segments: tuple[Segment, ...]

    @property
    def blocks(self) -> list[BlockId]:
        return [segment.block for segment in self.segments if segment.block is not None]


def best_window(segments: Iterable[Segment], size_bytes: int) -> Window | None:
    """The window whose latest used block is the oldest; among such, the one with the fewest bytes to move away.

    Parameters
    ----------
    segments : in any order; what cannot be moved is not among them.
    size_bytes : that the window has at least.
    """
    ordered = sorted(segments)
    run = _Run(ordered)
    best: tuple[tuple[int, int], int, int] | None = None
    for index in range(len(ordered)):
        run.take(index)
        while run.size_bytes - ordered[run.first].extent.size_bytes >= size_bytes:
            run.drop_first()
        if run.size_bytes >= size_bytes and (best is None or run.cost < best[0]):
            best = run.cost, run.first, index
    if best is None:
        return None
    chosen = tuple(ordered[best[1] : best[2] + 1])
    return Window(chosen[0].extent.offset, chosen)


class _Run:
    """Neighbours in a row, to which the next is added and from which the first is dropped; each in constant time."""

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._latest: deque[int] = deque()  # of blocks: the latest used one, the latest behind that one, and so on
        self.first = 0
        self.size_bytes = 0
        self._block_bytes = 0

    @property
    def cost(self) -> tuple[int, int]:
        return (self._segments[self._latest[0]].last_use if self._latest else 0), self._block_bytes

    def take(self, index: int) -> None:
        segment = self._segments[index]
        if index > 0 and self._segments[index - 1].extent.end != segment.extent.offset:
            self.first, self.size_bytes, self._block_bytes = index, 0, 0
            self._latest.clear()
        self.size_bytes += segment.extent.size_bytes
        if segment.block is not None:
            self._block_bytes += segment.extent.size_bytes
            while self._latest and self._segments[self._latest[-1]].last_use <= segment.last_use:
                self._latest.pop()
            self._latest.append(index)

    def drop_first(self) -> None:
        segment = self._segments[self.first]
        self.size_bytes -= segment.extent.size_bytes
        if segment.block is not None:
            self._block_bytes -= segment.extent.size_bytes
            if self._latest[0] == self.first:
                self._latest.popleft()
        self.first += 1
