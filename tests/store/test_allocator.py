"""The allocator against a model, and under random workloads."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fibernb.store.allocator import PAGE_BYTES, Allocator, Extent, rounded

SIZES = st.integers(1, 40 * PAGE_BYTES)


class AllocatorMachine(RuleBasedStateMachine):
    """Whatever happens, the extents tile the file: none overlap, and no two free ones touch."""

    def __init__(self) -> None:
        super().__init__()
        self.allocator = Allocator()
        self.size_bytes = 0
        self.used: dict[int, int] = {}

    @rule(pages=st.integers(0, 60))
    def extend(self, pages: int) -> None:
        self.size_bytes = max(self.size_bytes, pages * PAGE_BYTES)
        self.allocator.extend(pages * PAGE_BYTES)

    @rule()
    def cut(self) -> None:
        self.size_bytes = max((offset + size for offset, size in self.used.items()), default=0)
        assert self.allocator.cut() == self.size_bytes

    @rule(size=SIZES)
    def allocate(self, size: int) -> None:
        fits = self.largest_gap() >= rounded(size)
        offset = self.allocator.allocate(size)
        assert (offset is not None) == fits
        if offset is not None:
            self.used[offset] = rounded(size)

    @precondition(lambda self: self.used)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.used)))
        assert self.allocator.free(offset) == Extent(offset, self.used.pop(offset))

    @rule(begin=st.integers(0, 60), pages=st.integers(1, 10))
    def take(self, begin: int, pages: int) -> None:
        extent = Extent(begin * PAGE_BYTES, pages * PAGE_BYTES)
        if any(gap.offset <= extent.offset and extent.end <= gap.end for gap in self.gaps()):
            self.allocator.take(extent)
            self.used[extent.offset] = extent.size_bytes
        else:
            with pytest.raises(ValueError, match="is not free"):
                self.allocator.take(extent)

    def gaps(self) -> list[Extent]:
        found, at = [], 0
        for offset, size in [*sorted(self.used.items()), (self.size_bytes, 0)]:
            if offset > at:
                found.append(Extent(at, offset - at))
            at = offset + size
        return found

    def largest_gap(self) -> int:
        return max((gap.size_bytes for gap in self.gaps()), default=0)

    @invariant()
    def agrees_with_the_model(self) -> None:
        allocator = self.allocator
        assert sorted(allocator.used_extents()) == sorted(Extent(*item) for item in self.used.items())
        assert sorted(allocator.free_extents()) == self.gaps()
        assert allocator.size_bytes == self.size_bytes
        assert allocator.used_bytes == sum(self.used.values())
        assert allocator.free_bytes == self.size_bytes - allocator.used_bytes
        assert allocator.largest_free_bytes == self.largest_gap()
        at_end = [gap.size_bytes for gap in self.gaps() if gap.end == self.size_bytes]
        assert allocator.free_at_end_bytes == sum(at_end)
        assert all(extent.offset % PAGE_BYTES == 0 for extent in allocator.used_extents())


AllocatorMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAllocator = AllocatorMachine.TestCase


@pytest.mark.parametrize("seed", range(3))
def test_random_sizes_do_not_fragment_the_space_to_death(seed: int) -> None:
    """With three quarters of it in use, sizes from 100 kB to a tenth of everything go on finding room."""
    draw = random.Random(seed)
    total = 2**30
    allocator = Allocator(total)
    live: list[int] = []
    failures = 0
    for _ in range(5_000):
        size = int(100_000 * 1000 ** draw.random() ** 2)
        while allocator.used_bytes + rounded(size) > 0.75 * total:
            allocator.free(live.pop(draw.randrange(len(live))))
        offset = allocator.allocate(size)
        if offset is None:
            failures += 1
        else:
            live.append(offset)
    assert failures < 100  # of the largest, for which others are moved then


def test_what_was_freed_last_is_used_again() -> None:
    allocator = Allocator(100 * PAGE_BYTES)
    first = allocator.allocate(10 * PAGE_BYTES)
    assert first == 0
    for _ in range(3):
        allocator.free(0)
        assert allocator.allocate(10 * PAGE_BYTES) == 0


def test_an_empty_block_has_a_place_of_its_own() -> None:
    allocator = Allocator(2 * PAGE_BYTES)
    assert [allocator.allocate(0), allocator.allocate(0), allocator.allocate(0)] == [0, PAGE_BYTES, None]
