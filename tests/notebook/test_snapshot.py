"""How a running cell is told as text."""

import pytest

from fibernb.model import Bar
from fibernb.notebook.snapshot import (
    Snapshot,
    bar_text,
    bars_text,
    duration,
    overall_bar,
    progress_line,
    snapshot_of_ranks,
    summary,
    without_escapes,
)


def snapshot(
    states: dict[int, str], bars: tuple[tuple[int, Bar], ...] = (), lines: dict[int, str] | None = None
) -> Snapshot:
    return snapshot_of_ranks(states, elapsed_s=2.13, bars=bars, last_lines=lines or {})


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ({0: "running", 1: "waiting"}, "▶ 0 of 2 ranks, 1 waiting, 1 running, 2.1 s"),
        ({0: "done", 1: "running"}, "▶ 1 of 2 ranks, 1 running, 2.1 s"),
        ({0: "done", 1: "done"}, "✓ 2 of 2 ranks, 2.1 s"),
        ({0: "done", 1: "failed", 2: "lost"}, "✗ 3 of 3 ranks, 1 failed, 1 lost (2), 2.1 s"),
        ({0: "done", 1: "replaced"}, "✗ 2 of 2 ranks, 1 replaced (1), 2.1 s"),
        ({0: "cancelled", 1: "replaced"}, "✗ 2 of 2 ranks, 1 cancelled, 1 replaced (1), 2.1 s"),
        (dict.fromkeys(range(0, 1024, 2), "replaced"), "✗ 512 of 512 ranks, 512 replaced, 2.1 s"),
    ],
)
def test_summary(states: dict[int, str], text: str) -> None:
    assert summary(snapshot(states)) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["In[3]"], "▶ 0 of 2 ranks, 1 waiting for In[3], 1 running, 2.1 s"),
        (["In[3]", "f"], "▶ 0 of 2 ranks, 1 waiting for In[3], f, 1 running, 2.1 s"),
        (["a", "b", "c", "d", "e"], "▶ 0 of 2 ranks, 1 waiting for a, b, c and 2 more, 1 running, 2.1 s"),
    ],
)
def test_what_is_in_the_way(names: list[str], text: str) -> None:
    states = {0: "running", 1: "waiting"}
    assert summary(snapshot_of_ranks(states, elapsed_s=2.13, bars=(), last_lines={}, waits_for=names)) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (59.9, "59 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("bar", "text"),
    [
        (Bar(bar=0, description="epochs: ", done=4, total=10, elapsed_s=2), "epochs 4/10 it (40%), 2 it/s, 3.0 s left"),
        (Bar(bar=0, done=10, total=10, elapsed_s=2, unit="B"), "10/10 B (100%), 5 B/s"),
        (Bar(bar=0, done=3), "3 it"),
        (Bar(bar=0, done=0, total=0), "0/0 it (100%)"),
    ],
)
def test_bar_text(bar: Bar, text: str) -> None:
    assert bar_text(bar) == text


def test_overall_bar() -> None:
    bars = [(0, Bar(bar=0, done=1, total=4)), (1, Bar(bar=0, done=2, total=4)), (2, Bar(bar=0, done=9))]
    overall = overall_bar(bars)
    assert overall is not None
    assert (overall.done, overall.total) == (3, 8)
    assert overall_bar([(0, Bar(bar=0))]) is None
    assert "overall 3/8 it (37%)" in progress_line(snapshot({0: "running"}, tuple(bars)))


def test_items() -> None:
    items = Snapshot(states={"done": 3, "left": 2}, by_rank={}, elapsed_s=0.5, unit="items", last_lines={})
    assert progress_line(items) == "▶ 3 of 5 items, 2 left, 0.5 s"


def test_without_escapes() -> None:
    assert without_escapes("\x1b[1;31mred\x1b[0m\x1b[K") == "red"


def test_bars_of_plain_tasks() -> None:
    bars = [(rank, Bar(bar=0, description="<a>", done=1, total=2)) for rank in (0, 1, -3)]
    assert bars_text(bars).splitlines() == [
        "[0] <a> 1/2 it (50%)",
        "[1] <a> 1/2 it (50%)",
        "[extra 3] <a> 1/2 it (50%)",
    ]
    assert bars_text(bars * 10).splitlines()[-1] == "… 14 more bars"
