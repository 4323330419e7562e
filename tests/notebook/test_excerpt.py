"""Long output within a limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibernb.notebook.excerpt import excerpt, fair_share, shorten
from fibernb.notebook.grouping import Block, LeftOut, Line, Rich


def block(rank: int, count: int, text: str = "x") -> Block:
    return Block((rank,), tuple(Line("stdout", f"{text}{at}") for at in range(count)))


def total_lines(blocks: list[Block]) -> int:
    return sum(item.lines if isinstance(item, LeftOut) else 1 for block in blocks for item in block.items)


def test_short_output_is_whole() -> None:
    blocks = [block(0, 3), block(1, 5)]
    assert excerpt(blocks, max_lines=8, max_bytes=10_000) == blocks
    assert excerpt([], max_lines=8, max_bytes=10_000) == []


def test_beginning_and_end_are_kept() -> None:
    (short,) = excerpt([block(0, 100)], max_lines=4, max_bytes=10_000)
    assert [item.text for item in short.items if isinstance(item, Line)] == ["x0", "x1", "x99"]
    assert short.items[2] == LeftOut(97, sum(len(f"x{at}") + 1 for at in range(2, 99)))


@pytest.mark.parametrize("gap_at", [0, 1, 5, 19, 20])
@pytest.mark.parametrize("max_lines", [3, 4, 10, 20])
def test_there_is_one_gap_only(gap_at: int, max_lines: int) -> None:
    items = block(0, 20).items
    (short,) = excerpt(
        [Block((0,), (*items[:gap_at], LeftOut(7, 70), *items[gap_at:]))], max_lines=max_lines, max_bytes=10_000
    )
    assert len(short.items) == max_lines
    assert sum(isinstance(item, LeftOut) for item in short.items) == 1
    assert total_lines([short]) == 27


def test_long_blocks_give_way_to_short_ones() -> None:
    long, short = excerpt([block(0, 1000), block(1, 3)], max_lines=13, max_bytes=100_000)
    assert short == block(1, 3)
    assert len(long.items) == 10


def test_too_many_blocks() -> None:
    kept = excerpt([block(rank, 1) for rank in range(100)], max_lines=10, max_bytes=100_000)
    assert len(kept) == 10
    assert kept[5].ranks == tuple(range(5, 96))
    assert isinstance(kept[5].items[0], LeftOut)
    assert kept[5].items[0].lines == 91


def test_many_long_blocks_give_way_to_fewer_of_three_lines() -> None:
    kept = excerpt([block(rank, 100) for rank in range(500)], max_lines=1000, max_bytes=1_000_000)
    assert sum(len(block.items) for block in kept) <= 1000
    assert [[getattr(item, "text", None) for item in block.items] for block in kept[:2]] == [["x0", None, "x99"]] * 2
    assert (kept[0].ranks, kept[-1].ranks, total_lines(kept)) == ((0,), (499,), 50_000)


def test_bytes() -> None:
    (short,) = excerpt([block(0, 100, "x" * 98)], max_lines=1000, max_bytes=1000)
    assert sum(len(item.text) for item in short.items if isinstance(item, Line)) <= 1000
    assert total_lines([short]) == 100


def test_few_lines_that_are_too_long_are_all_there() -> None:
    (short,) = excerpt([block(0, 3, "x" * 1000)], max_lines=10, max_bytes=600)
    assert [isinstance(item, Line) for item in short.items] == [True, False, True]
    (short,) = excerpt([block(0, 3, "x" * 1000)], max_lines=10, max_bytes=2900)
    assert total_lines([short]) == 3
    assert sum(len(item.text) for item in short.items if isinstance(item, Line)) < 2900


def test_one_endless_line() -> None:
    (short,) = excerpt([Block((0,), (Line("stdout", "ab" * 50_000),))], max_lines=10, max_bytes=1000)
    (line,) = short.items
    assert isinstance(line, Line)
    assert len(line.text) < 1100
    assert "characters left out" in line.text


def test_displays_are_limited_by_number() -> None:
    displays = Block((0,), tuple(Rich(b"%d" % at) for at in range(10)))
    (short,) = excerpt([displays], max_lines=16, max_bytes=1000)
    assert short.items == (*displays.items[:4], LeftOut(0, 0, displays=6))


def test_displays_are_limited_by_size_and_text_is_not_the_less_for_it() -> None:
    ranks = [Block((rank,), (Rich(b"%d" % rank, size_bytes=400), Line("stdout", "drawn"))) for rank in range(4)]
    kept = excerpt(ranks, max_lines=100, max_bytes=1000)
    assert [isinstance(block.items[0], Rich) for block in kept] == [True, True, False, False]
    assert kept[3].items == (LeftOut(0, 400, displays=1), Line("stdout", "drawn"))


def test_shorten() -> None:
    assert shorten("short", 5) == "short"
    assert shorten("abcdefghij", 4) == "ab … 6 characters left out … ij"
    assert shorten("äöüäöü", 4) == "ä … 4 characters left out … ü"


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(1, 100))
def test_fair_share(wants: list[int], total: int) -> None:
    share = fair_share(wants, total)
    if share > 1:
        assert sum(min(want, share) for want in wants) <= total
    if share < max(wants, default=0):
        assert sum(min(want, share + 1) for want in wants) > total


@given(st.lists(st.integers(1, 40), max_size=12), st.integers(2, 30), st.integers(100, 1000))
def test_nothing_vanishes_uncounted(counts: list[int], max_lines: int, max_bytes: int) -> None:
    blocks = [block(rank, count) for rank, count in enumerate(counts)]
    kept = excerpt(blocks, max_lines=max_lines, max_bytes=max_bytes)
    assert total_lines(kept) == sum(counts)
    assert sum(len(block.items) for block in kept) <= max(max_lines, 3)
