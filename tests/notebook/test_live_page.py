"""How a running cell looks."""

import re
import xml.etree.ElementTree as ET

import pytest

from fibernb.core.messages import Status
from fibernb.model import Bar
from fibernb.notebook.live_page import bars_html, heard_html, live_html, static_html
from fibernb.notebook.rank_cells import MAX_NUMBERED, SHAPES, described, picture
from fibernb.notebook.snapshot import STATES, Snapshot, cluster_line, snapshot_of_ranks


def snapshot(
    states: dict[int, str], bars: tuple[tuple[int, Bar], ...] = (), lines: dict[int, str] | None = None
) -> Snapshot:
    return snapshot_of_ranks(states, elapsed_s=2.13, bars=bars, last_lines=lines or {})


def paths(image: str) -> dict[str, str]:
    """What is drawn, by what a pointer over it is told."""
    root = ET.fromstring(image)
    return {str(path.findtext("title")): path.attrib["d"] for path in root.iter("path")}


def numbers(image: str) -> list[int]:
    return [int(text.text or "") for text in ET.fromstring(image).iter("text")]


def test_every_state_has_a_shape_of_its_own() -> None:
    assert set(SHAPES) == set(STATES)
    assert len({SHAPES[state] for state in STATES if state != "left"}) == len(STATES) - 1


def test_a_cell_for_every_rank_without_relying_on_colour() -> None:
    states = {0: "running", 1: "failed", 2: "running", 5: "replaced"}
    cells = ET.fromstring(picture(states)).findall("span")
    assert [cell.attrib["title"] for cell in cells] == [f"rank {rank}: {state}" for rank, state in states.items()]
    for cell, state in zip(cells, states.values(), strict=True):
        (path,) = cell.iter("path")
        assert path.attrib["d"].endswith(SHAPES[state])
    many = {rank: states.get(rank, "done") for rank in range(100)}
    drawn = paths(picture(many))
    assert set(drawn) == {"running: 0,2", "failed: 1", "replaced: 5", "done: 3-4,6-99"}
    assert drawn["running: 0,2"].count(SHAPES["running"]) == 2
    assert drawn["failed: 1"].count(SHAPES["failed"]) == 1


def test_the_picture_is_told_in_words() -> None:
    states = {0: "running", 1: "failed", 2: "running"}
    assert described(states) == "running: 0,2; failed: 1"
    assert ET.fromstring(picture(states)).attrib["aria-label"] == described(states)


def test_words_about_many_ranks_are_few() -> None:
    states = {rank: "running" if rank % 2 else "done" for rank in range(1024)}
    assert len(described(states)) < 500
    assert "… (512)" in described(states)


@pytest.mark.parametrize("ranks", [1, 4, 17, MAX_NUMBERED])
def test_few_ranks_are_numbered(ranks: int) -> None:
    image = ET.fromstring(picture(dict.fromkeys(range(ranks), "running")))
    assert ["".join(cell.itertext()).strip() for cell in image.findall("span")] == list(map(str, range(ranks)))


def test_many_ranks_are_numbered_by_row() -> None:
    image = picture(dict.fromkeys(range(10, 210), "running"))
    assert numbers(image) == [10, 74, 138, 202]


@pytest.mark.parametrize("ranks", [65, 128, 256, 1024])
def test_cells_lie_inside_of_the_picture_and_beside_each_other(ranks: int) -> None:
    image = picture(dict.fromkeys(range(ranks), "done"))
    width, height = map(int, ET.fromstring(image).attrib["viewBox"].split()[2:])
    (drawn,) = paths(image).values()
    corners = [(int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)", drawn)]
    assert len(set(corners)) == ranks
    assert all(0 <= x <= width - 8 and 0 <= y <= height - 8 for x, y in corners)


def test_live_view_of_many_ranks_stays_small() -> None:
    bars = tuple((rank, Bar(bar=0, done=1, total=2)) for rank in range(1024))
    states = {rank: STATES[rank % 2] for rank in range(1024)}
    shown = live_html(snapshot(states, bars, {r: f"line {r}" for r in range(1024)}))
    assert len(shown) < 40_000
    assert "… 1008 more bars" in shown
    assert "… 1019 more" in shown


def test_live_view_escapes_what_engines_wrote() -> None:
    shown = live_html(
        snapshot({0: "running"}, ((0, Bar(bar=0, description="<b>", done=1)),), {0: "\x1b[31m<i>\x1b[0m"})
    )
    assert "[0] &lt;i&gt;" in shown
    assert "&lt;b&gt; 1 it" in shown
    assert "<progress" in shown


def test_the_live_view_changes_once_a_second_where_nothing_happens() -> None:
    def shown(elapsed_s: float) -> str:
        return live_html(snapshot_of_ranks({0: "running"}, elapsed_s=elapsed_s, bars=(), last_lines={}))

    assert shown(2.0) == shown(2.9) != shown(3.0)


def test_states_are_counted_below_the_picture() -> None:
    shown = live_html(snapshot({0: "running", 1: "done", 2: "done"}))
    assert "▶ 2 of 3 ranks, 2 s" in shown
    assert re.search(r"</svg> 1 running</span>", shown)
    assert re.search(r"</svg> 2 done</span>", shown)


def test_engines_and_queue() -> None:
    status = Status(
        request=0, seats=4, ready=3, busy=2, starting=1, waiting=0, queued=1200, running=2, finished=0, failed=0,
        refused=0, engines=[], clients=1, pending=[], problem="no memory left",
    )  # fmt: skip
    line = cluster_line(status)
    assert line == "3 of 4 engines ready, 2 busy, 1,200 tasks queued, no memory left"
    assert cluster_line(None) == ""
    shown = live_html(snapshot_of_ranks({0: "running"}, elapsed_s=1, bars=(), last_lines={}, cluster=line))
    assert line in shown


def test_only_one_line_is_to_be_said() -> None:
    state = snapshot({0: "running", 1: "done"})
    assert 'role="status"' not in live_html(state)
    assert heard_html(state).count('role="status"') == 1
    assert ">▶ 1 of 2 ranks, 1 running<" in heard_html(state)


def test_what_stays() -> None:
    assert static_html(snapshot({0: "done"})) == "<div>✓ 1 of 1 ranks, 2.1 s</div>"


def test_items_have_no_picture() -> None:
    items = Snapshot(
        states={"done": 3, "left": 2}, by_rank={}, elapsed_s=0.5, unit="items", last_lines={0: "a", 1: "a"}
    )
    assert 'role="img"' not in live_html(items)
    assert "[0-1] a" in live_html(items)


def test_bars_of_plain_tasks() -> None:
    bars = [(rank, Bar(bar=0, description="<a>", done=1, total=2)) for rank in (0, 1, -3)]
    page = bars_html(bars)
    assert page.count("<progress") == 4, "and one for all"
    assert "[extra 3]" in page
    assert "&lt;a&gt; 1/2" in page
    assert "… 14 more bars" in bars_html(bars * 10)
