"""Collecting what the sources of a cell write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibernb.core.messages import Progress
from fibernb.notebook.gathering import STREAMED_DISPLAYS, Fresh, Gathered
from fibernb.notebook.grouping import MODES, Block, LeftOut, Line, Mode, Rich, arranged
from tests.notebook.saying import clear, display, rich, text


def gathered(sources: int, max_lines: int = 1000, max_bytes: int = 1_000_000) -> Gathered:
    return Gathered(sources=range(sources), max_lines=max_lines, max_bytes=max_bytes)


def lines(*written: str) -> tuple[Line, ...]:
    return tuple(Line("stdout", line) for line in written)


def test_all_is_shown_at_the_end() -> None:
    cell = gathered(64)
    cell.take(3, text("three\n"))
    cell.take(1, text("one"))
    cell.take(2, Progress(task=1, rank=2, sequence=0, bars=[]))
    cell.take(0, display(plain="1"))
    assert cell.last_lines() == {3: "three", 1: "one"}
    assert cell.rest("auto") == Fresh(
        False, [Block((0,), (rich(plain="1"),)), Block((1,), lines("one")), Block((3,), lines("three"))]
    )


def test_what_all_have_written_is_shown_while_they_run() -> None:
    cell = gathered(3)
    for source in (0, 1):
        cell.take(source, text("ready\n"))
    assert cell.fresh("auto").blocks == []  # the third may write something else
    cell.take(2, text("ready\nodd\n"))
    assert cell.fresh("auto").blocks == [Block((0, 1, 2), lines("ready"))]
    assert cell.fresh("auto").blocks == []
    cell.take(1, text("even\n"))
    cell.end(0)
    assert cell.fresh("auto").blocks == [Block((1,), lines("even"))]
    cell.end(1)
    assert cell.fresh("auto").blocks == [Block((2,), lines("odd"))]
    cell.take(2, text("last"))
    assert cell.rest("auto").blocks == [Block((2,), lines("last"))]


def test_one_rank_after_the_other() -> None:
    cell = gathered(3)
    cell.take(1, text("b\n"))
    cell.take(0, text("a\n"))
    assert cell.fresh("rank").blocks == [Block((0,), lines("a"))]
    cell.end(0)
    assert cell.fresh("rank").blocks == [Block((1,), lines("b"))]


def test_only_the_first_that_writes() -> None:
    cell = gathered(3)
    cell.take(1, text("b\n"))
    assert cell.fresh("first").blocks == []
    cell.end(0)
    assert cell.fresh("first").blocks == [Block((1,), lines("b"))]
    cell.end(1)
    cell.take(2, text("c\n"))
    assert cell.fresh("first").blocks == []
    assert cell.rest("first").blocks == []


def test_a_display_that_may_be_updated_waits_for_the_end_where_there_are_several() -> None:
    cell = gathered(2)
    for source in (0, 1):
        cell.take(source, text("before\n"))
        cell.take(source, display(display_id="d", plain="1"))
        cell.take(source, text("after\n"))
    assert cell.fresh("auto").blocks == [Block((0, 1), lines("before"))]
    cell.take(0, display("update", "d", plain="2"))
    cell.end(0)
    cell.end(1)
    assert cell.fresh("auto").blocks == [
        Block((0,), (rich("d", plain="2"), *lines("after"))),
        Block((1,), (rich("d", plain="1"), *lines("after"))),
    ]


def test_updates_of_the_only_source_have_no_limit() -> None:
    cell = gathered(1, max_lines=10)
    cell.take(0, display(display_id="d", plain="0"))
    assert len(cell.fresh("auto").blocks) == 1
    for number in range(50):
        cell.take(0, display("update", "d", plain=f"{number}"))
        (block,) = cell.fresh("auto").blocks
        assert block.items == (rich("d", plain=f"{number}")._replace(update=True),)
    cell.take(0, text("line\n"))
    assert cell.fresh("auto").blocks == [Block((0,), lines("line"))]


def test_what_was_shown_of_the_only_source_is_cleared_at_once() -> None:
    cell = gathered(1)
    cell.take(0, text("a\n"))
    assert cell.fresh("auto") == Fresh(False, [Block((0,), lines("a"))])
    cell.take(0, clear(wait=False))
    assert cell.fresh("auto") == Fresh(True, [])
    cell.take(0, text("b\n"))
    assert cell.fresh("auto") == Fresh(False, [Block((0,), lines("b"))])
    cell.take(0, clear(wait=True))
    cell.take(0, text("c\n"))
    assert cell.rest("auto") == Fresh(True, [Block((0,), lines("c"))])


def test_what_was_shown_of_several_is_cleared_at_the_end_and_all_is_shown_anew() -> None:
    cell = gathered(2)
    for source in (0, 1):
        cell.take(source, text("a\n"))
    assert cell.fresh("auto").blocks == [Block((0, 1), lines("a"))]
    cell.take(0, clear(wait=False))
    cell.take(0, text("b\n"))
    assert cell.fresh("auto") == Fresh(False, [])
    cell.end(0)
    cell.end(1)
    assert cell.fresh("auto") == Fresh(False, [])
    assert cell.rest("auto") == Fresh(True, [Block((0,), lines("b")), Block((1,), lines("a"))])


def test_half_of_the_limit_at_most_is_shown_before_the_end() -> None:
    cell = gathered(4, max_lines=100)
    shown = 0
    for number in range(100):
        for source in range(4):
            cell.take(source, text(f"{source} {number}\n"))
            if number == 99:
                cell.end(source)
        shown += sum(len(block.items) for block in cell.fresh("auto").blocks)
    assert shown == 50
    rest = cell.rest("auto").blocks
    assert sum(len(block.items) for block in rest) <= 50
    told = sum(item.lines if isinstance(item, LeftOut) else 1 for block in rest for item in block.items)
    assert shown + told == 400


def test_few_displays_are_shown_at_once() -> None:
    cell = gathered(1)
    for number in range(10):
        cell.take(0, display(plain=f"{number}"))
    counts = [sum(len(block.items) for block in cell.fresh("auto").blocks) for _ in range(4)]
    assert counts == [STREAMED_DISPLAYS, STREAMED_DISPLAYS, 10 - 2 * STREAMED_DISPLAYS, 0]


def test_nothing_is_shown_early_of_very_many() -> None:
    cell = gathered(10_000)
    for source in range(10_000):
        cell.end(source)
    cell.take(0, text("a\n"))
    assert cell.fresh("auto").blocks == []
    assert cell.rest("auto").blocks == [Block((0,), lines("a"))]


steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["a\n", "b\n", "a", "b\nb\n", "show", "end", "display"])), max_size=30
)


@pytest.mark.parametrize("mode", MODES)
@given(steps)
def test_every_source_reads_its_own_output_however_it_is_shown(mode: Mode, taken: list[tuple[int, str]]) -> None:
    """What is shown early and the rest are together what is shown at the end, for each source."""
    cell, whole = gathered(4), gathered(4)
    early: list[Block] = []
    ended: set[int] = set()
    for source, step in taken:
        if step == "show":
            early += cell.fresh(mode).blocks
        elif step == "end":
            ended.add(source)
            cell.end(source)
        elif source not in ended:
            said = display(plain="x") if step == "display" else text(step)
            cell.take(source, said)
            whole.take(source, said)
    shown = early + cell.rest(mode).blocks
    expected = whole.rest(mode).blocks
    for source in range(4):
        assert _read(shown, source) == _read(expected, source)


def _read(blocks: list[Block], source: int) -> list[Line | Rich | LeftOut]:
    return [item for block in blocks if source in block.ranks for item in block.items]


@given(steps)
def test_what_is_shown_early_is_what_would_stand_there_at_the_end(taken: list[tuple[int, str]]) -> None:
    cell, written = gathered(4), dict.fromkeys(range(4), "")
    early: list[Block] = []
    for source, step in taken:
        if step == "show":
            early += cell.fresh("rank").blocks
        elif "\n" in step:
            written[source] += step
            cell.take(source, text(step))
    expected = arranged({source: lines(*said.splitlines()) for source, said in written.items()}, "rank")
    flat = [(block.ranks, item) for block in expected for item in block.items]
    shown = [(block.ranks, item) for block in early for item in block.items]
    assert shown == flat[: len(shown)]
