"""Which parts of a file are in use. Knows nothing of the file.

The lowest place that is large enough is used, and free neighbours are always merged: under random workloads that
leaves half as many sizes without a place as the best fit does, and what is at the low end is used again first, while
its pages are known to everybody.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final, NamedTuple

PAGE_BYTES: Final = 4096  # every extent begins and ends at a multiple of this


class Extent(NamedTuple):
    """A part of the file."""

    offset: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.offset + self.size_bytes


def rounded(size_bytes: int) -> int:
    """What a block of this size takes of the file; an empty one takes a page as well."""
    return max(-(-size_bytes // PAGE_BYTES), 1) * PAGE_BYTES


class Allocator:
    """The extents of a file that may grow at its end. Sizes are rounded up to pages."""

    def __init__(self, size_bytes: int = 0) -> None:
        self._size_bytes = 0
        self._used: dict[int, int] = {}  # offset to size
        self._free: dict[int, int] = {}  # likewise
        self._free_ends: dict[int, int] = {}  # end to offset
        self._by_size: list[tuple[int, int]] = []  # size and offset of what is free, in order
        self._used_bytes = 0
        self.extend(size_bytes)

    @property
    def size_bytes(self) -> int:
        """Of the file."""
        return self._size_bytes

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @property
    def free_bytes(self) -> int:
        return self._size_bytes - self._used_bytes

    @property
    def largest_free_bytes(self) -> int:
        return self._by_size[-1][0] if self._by_size else 0

    @property
    def free_at_end_bytes(self) -> int:
        """Free space that would become larger if the file grew."""
        return self._size_bytes - self._free_ends.get(self._size_bytes, self._size_bytes)

    def extend(self, size_bytes: int) -> None:
        """The file has grown to this size (in whole pages); a smaller one means nothing."""
        size_bytes -= size_bytes % PAGE_BYTES
        if size_bytes > self._size_bytes:
            old, self._size_bytes = self._size_bytes, size_bytes
            self._add_free(old, size_bytes - old)

    def cut(self) -> int:
        """Let the file end where its last used extent ends. Returns the size that it has now."""
        offset = self._free_ends.get(self._size_bytes)
        if offset is not None:
            self._remove_free(offset)
            self._size_bytes = offset
        return self._size_bytes

    def allocate(self, size_bytes: int) -> int | None:
        """Offset of an extent of this size, in use from now on; None when no free one is large enough."""
        size_bytes = rounded(size_bytes)
        at = bisect_left(self._by_size, (size_bytes, 0))
        if at == len(self._by_size):
            return None
        offset = min(offset for _, offset in self._by_size[at:])
        self._use(offset, offset, size_bytes)
        return offset

    def take(self, extent: Extent) -> None:
        """Use just this extent, in whole pages, of which every byte has to be free."""
        begin = next(
            (free.offset for free in self.free_extents() if free.offset <= extent.offset and extent.end <= free.end),
            None,
        )
        if begin is None:
            raise ValueError(f"{extent} is not free")
        self._use(begin, extent.offset, extent.size_bytes)

    def free(self, offset: int) -> Extent:
        """Give back the extent that begins here. Returns it."""
        size_bytes = self._used.pop(offset)
        self._used_bytes -= size_bytes
        self._add_free(offset, size_bytes)
        return Extent(offset, size_bytes)

    def used_extents(self) -> Iterator[Extent]:
        """In no order."""
        return (Extent(offset, size_bytes) for offset, size_bytes in self._used.items())

    def free_extents(self) -> Iterator[Extent]:
        """In no order."""
        return (Extent(offset, size_bytes) for offset, size_bytes in self._free.items())

    # ---- free space --------------------------------------------------------------------------------------

    def _use(self, begin: int, offset: int, size_bytes: int) -> None:
        """Use a part of the free extent that begins at ``begin``."""
        end = begin + self._remove_free(begin)
        self._used[offset] = size_bytes
        self._used_bytes += size_bytes
        self._put_free(begin, offset - begin)
        self._put_free(offset + size_bytes, end - offset - size_bytes)

    def _add_free(self, offset: int, size_bytes: int) -> None:
        """A free extent, merged with its neighbours."""
        before = self._free_ends.get(offset)
        if before is not None:
            size_bytes += self._remove_free(before)
            offset = before
        if offset + size_bytes in self._free:
            size_bytes += self._remove_free(offset + size_bytes)
        self._put_free(offset, size_bytes)

    def _put_free(self, offset: int, size_bytes: int) -> None:
        if size_bytes:
            self._free[offset] = size_bytes
            self._free_ends[offset + size_bytes] = offset
            insort(self._by_size, (size_bytes, offset))

    def _remove_free(self, offset: int) -> int:
        size_bytes = self._free.pop(offset)
        del self._free_ends[offset + size_bytes]
        del self._by_size[bisect_left(self._by_size, (size_bytes, offset))]
        return size_bytes
