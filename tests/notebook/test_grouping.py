"""Equal output once, different output in rank order."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibernb.notebook.grouping import MODES, Block, Item, Line, Rich, arranged, format_ranks, merged


def lines(*texts: str) -> list[Item]:
    return [Line("stdout", text) for text in texts]


def parse_ranks(text: str) -> list[int]:
    ends = [[int(end) for end in run.split("-")] for run in text.split(",")] if text else []
    return [rank for run in ends for rank in range(run[0], run[-1] + 1)]


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1], "0-1"),
        ([5, 0, 2, 1], "0-2,5"),
        ([1, 1, 4], "1,4"),
        ([-2], "extra 2"),
        ([0, -3, 1, -2, -5], "0-1, extra 2-3,5"),
    ],
)
def test_format_ranks(ranks: list[int], text: str) -> None:
    assert format_ranks(ranks) == text


@given(st.sets(st.integers(0, 300)))
def test_format_ranks_loses_nothing(ranks: set[int]) -> None:
    assert parse_ranks(format_ranks(ranks)) == sorted(ranks)


def test_equal_output_once() -> None:
    assert merged({rank: lines("ready") for rank in range(256)}) == [Block(tuple(range(256)), tuple(lines("ready")))]


def test_common_beginning_once() -> None:
    outputs = {0: lines("start", "a"), 1: lines("start", "b"), 2: lines("start", "a"), 3: lines("start")}
    assert merged(outputs) == [
        Block((0, 1, 2, 3), tuple(lines("start"))),
        Block((0, 2), tuple(lines("a"))),
        Block((1,), tuple(lines("b"))),
    ]


def test_streams_are_told_apart() -> None:
    assert len(merged({0: [Line("stdout", "x")], 1: [Line("stderr", "x")]})) == 2


def test_many_ranks_that_part_late() -> None:
    outputs = {rank: lines(*["x"] * rank, "end") for rank in range(300)}
    assert sum(len(block.items) for block in merged(outputs)) == 299 + 300


item = st.builds(Line, st.sampled_from(["stdout", "stderr"]), st.sampled_from("abc")) | st.just(Rich(b"{}"))


@given(st.dictionaries(st.integers(0, 6), st.lists(item, max_size=5)))
def test_each_rank_reads_its_own_output(outputs: dict[int, Sequence[Item]]) -> None:
    blocks = merged(outputs)
    for rank, items in outputs.items():
        assert [shown for block in blocks if rank in block.ranks for shown in block.items] == list(items)
    assert all(block.items and block.ranks == tuple(sorted(block.ranks)) for block in blocks)


@given(st.dictionaries(st.integers(0, 6), st.lists(item, max_size=5)))
def test_modes(outputs: dict[int, Sequence[Item]]) -> None:
    writers = sorted(rank for rank, items in outputs.items() if items)
    by_mode = {mode: arranged(outputs, mode) for mode in MODES}
    assert by_mode["none"] == []
    assert [block.ranks for block in by_mode["rank"]] == [(rank,) for rank in writers]
    assert by_mode["first"] == by_mode["rank"][:1]
    assert by_mode["auto"] == merged(outputs)
