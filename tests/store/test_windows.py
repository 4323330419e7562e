"""Which blocks have to go for room to be made."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fibernb.store.allocator import Extent
from fibernb.store.windows import Segment, Window, best_window


def segments(*kinds: tuple[int, int | None]) -> list[Segment]:
    """Neighbours of these sizes; each free (use 0), a block last used at that time, or (None) not to be moved."""
    found, at = [], 0
    for number, (size, use) in enumerate(kinds):
        if use is not None:
            found.append(Segment(Extent(at, size), number if use else None, use))
        at += size
    return found


def test_the_least_recently_used_neighbours_go() -> None:
    window = best_window(segments((4, 7), (4, 1), (4, 2), (4, 9)), 8)
    assert window is not None
    assert window.blocks == [1, 2]


def test_free_space_counts_and_fewer_bytes_win() -> None:
    assert best_window(found := segments((4, 3), (4, 0), (2, 3), (6, 0)), 8) == Window(8, tuple(found[2:]))


def test_what_cannot_be_moved_parts() -> None:
    assert best_window(segments((4, 1), (1, None), (4, 1)), 5) is None
    assert best_window([], 1) is None


KINDS = st.lists(st.tuples(st.integers(1, 5), st.one_of(st.none(), st.integers(0, 6))), max_size=12)


@given(kinds=KINDS, size=st.integers(1, 20))
def test_no_other_window_is_better(kinds: list[tuple[int, int | None]], size: int) -> None:
    found = segments(*kinds)

    def cost(run: list[Segment]) -> tuple[int, int]:
        return max(s.last_use for s in run), sum(s.extent.size_bytes for s in run if s.block is not None)

    runs = [
        found[first:end]
        for first in range(len(found))
        for end in range(first + 1, len(found) + 1)
        if all(a.extent.end == b.extent.offset for a, b in pairwise(found[first:end]))
        and sum(s.extent.size_bytes for s in found[first:end]) >= size
    ]
    window = best_window(reversed(found), size)
    assert (window is None) == (not runs)
    if window is not None:
        assert list(window.segments) in runs
        assert cost(list(window.segments)) == min(map(cost, runs))
