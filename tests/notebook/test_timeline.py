"""Spans arranged into rows and slices of time, as text and as a picture."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibernb.notebook import timeline_picture
from fibernb.notebook.rows import SpanRow, WaitRow
from fibernb.notebook.timeline import MAX_SHADES, OTHERS, TEXT_ROWS, TEXT_SLICES, Past, arrange, as_text, latest
from fibernb.notebook.timeline_picture import COLOURS, PLOT, as_html


def span(rank: int, began_s: float, ended_s: float, name: str = "f", **fields: Any) -> SpanRow:
    return SpanRow(rank=rank, name=name, began_s=began_s, ended_s=ended_s, **fields)


def blocked(rank: int, began_s: float, ended_s: float, name: str = "f", **fields: Any) -> WaitRow:
    return WaitRow(kind="blocked", rank=rank, name=name, began_s=began_s, ended_s=ended_s, **fields)


def queued(began_s: float, ended_s: float, count: int) -> WaitRow:
    return WaitRow(kind="queued", rank=None, name="q", began_s=began_s, ended_s=ended_s, count=count, open=True)


def test_nothing_has_run() -> None:
    assert as_text(Past([])) == "nothing has been run yet"
    assert as_html(Past([])) == "<p>nothing has been run yet</p>"


def test_rows_are_engines_and_letters_are_functions() -> None:
    spans = [span(0, 100, 160, "long", count=3), span(1, 100, 115, "short"), span(1, 145, 160, "short", failed=1)]
    lines = as_text(Past(spans, ranks=range(3))).splitlines()
    assert lines[0] == "3 engines, 1 min 0 s, 5 calls, busy 50%, 1 failed"
    assert lines[1] == f"0 {'A' * 60} 100%"
    assert lines[2] == f"1 {'B' * 15}{'·' * 30}{'B' * 15}  50%"
    assert lines[3] == f"2 {'·' * 60}   0%"
    assert lines[4].split() == ["0", "s", "1", "min", "0", "s"]
    assert lines[5:] == ["A long: 3 calls, 1 min 0 s", "B short: 2 calls, 30 s, 1 failed"]


def test_a_slice_that_was_idle_for_the_most_part_has_a_small_letter() -> None:
    lines = as_text(Past([span(0, 0, 0.25, "f"), span(0, 59.0, 60.0, "f")])).splitlines()
    assert lines[1].split()[1].startswith("a·")


def test_engines_beside_the_seats_stand_last() -> None:
    timeline = arrange(Past([span(-3, 0, 1), span(2, 0, 1), span(-2, 0, 1)], ranks=[0]), 10, 4)
    assert [row.label for row in timeline.rows] == ["0", "2", "extra 2", "extra 3"]


def test_many_engines_share_rows() -> None:
    spans = [span(rank, 0, 1 if rank % 2 else 0.5) for rank in range(1024)]
    timeline = arrange(Past(spans), 64, 10)
    assert len(timeline.rows) == 64
    assert timeline.rows[1].label == "16-31"
    assert timeline.rows[1].engines == 16
    assert timeline.rows[1].busy == pytest.approx(0.75)
    assert timeline.load[9] == pytest.approx(0.5)
    assert len(as_text(Past(spans)).splitlines()) == 1 + TEXT_ROWS + 2


def test_a_band_across_the_last_seat() -> None:
    timeline = arrange(Past([span(rank, 0, 1) for rank in (0, 1, -1, -2)]), 1, 2)
    assert timeline.rows[0].label == "0-1, extra 1-2"


def test_functions_beyond_the_shades_are_told_together() -> None:
    spans = [span(0, index, index + 0.9 - index / 100, f"f{index}", count=2) for index in range(MAX_SHADES + 3)]
    timeline = arrange(Past(spans), 10, 10)
    assert [share.name for share in timeline.shares] == [*(f"f{index}" for index in range(MAX_SHADES)), OTHERS]
    assert timeline.shares[-1].calls == 6
    assert timeline.rows[0].slices[-1] is not None
    assert timeline.rows[0].slices[-1].shade == MAX_SHADES
    assert "* others: 6 calls" in as_text(Past(spans))


def test_short_times_are_told_in_milliseconds() -> None:
    lines = as_text(Past([span(0, 7, 7.0042)])).splitlines()
    assert lines[0] == "1 engine, 4.2 ms, 1 call, busy 100%"
    assert lines[2].split() == ["0", "s", "4.2", "ms"]
    assert lines[3] == "A f: 1 call, 4.2 ms"


def test_the_latest_part() -> None:
    spans = [span(0, 0, 10, "old"), span(1, 5, 95, "long"), span(0, 80, 100, "new"), span(2, 85, 90, "gone")]
    assert latest(Past(spans), 10) == Past([span(1, 90, 95, "long"), span(0, 90, 100, "new")], [], (), 2)
    assert latest(Past(spans), 1e9).spans == spans
    assert latest(Past([]), 10).empty


def test_the_latest_part_of_waits() -> None:
    past = Past(
        [span(0, 80, 100, waited_s=50.0)], [blocked(0, 85, 95), blocked(0, 82, 84), queued(10, 99, 3)], [7], 900
    )
    assert latest(past, 10) == Past([span(0, 90, 100)], [blocked(0, 90, 95), queued(90, 99, 3)], [7], 1)
    assert latest(past, 30).spans == [span(0, 80, 100, waited_s=10.0)]


def test_older_spans_that_are_not_shown_are_told_of() -> None:
    assert "the latest 1 of 50 spans" in as_text(Past([span(0, 0, 1)], total=50))


# ---- waits -----------------------------------------------------------------------------------------------


def test_time_in_which_a_task_waits_for_others_is_told_apart() -> None:
    past = Past([span(0, 0, 60), span(1, 15, 45, "inner")], [blocked(0, 15, 45)], [], 2)
    lines = as_text(past).splitlines()
    assert lines[0] == "2 engines, 1 min 0 s, 2 calls, busy 50%, blocked 25%"
    assert lines[1] == f"0 {'A' * 15}{'~' * 30}{'A' * 15}  50%"
    assert lines[2] == f"1 {'·' * 15}{'B' * 30}{'·' * 15}  50%"
    assert lines[4] == "A f: 1 call, 1 min 0 s, blocked for 30 s"
    assert lines[-1] == "~ blocked: the task waits for other tasks, in get or wait"


def test_a_task_that_waits_and_has_not_ended_is_shown() -> None:
    lines = as_text(Past([], [blocked(1, 10, 16, open=True)], range(2))).splitlines()
    assert lines[0] == "2 engines, 6.0 s, 0 calls, busy 0%, blocked 50%"
    assert lines[2] == f"1 {'~' * 60}   0%"
    assert lines[4] == "A f: has not ended, blocked for 6.0 s"


def test_waits_that_are_older_than_all_spans_do_not_stretch_the_picture() -> None:
    past = Past([span(0, 100, 110)], [blocked(0, 1, 2), blocked(0, 99, 101), blocked(0, 109, 112)])
    timeline = arrange(past, 10, 12)
    assert timeline.seconds == 12
    assert [part and part.shade for part in timeline.rows[0].slices] == [-1, *[0] * 8, -1, -1, -1]


def test_the_queue_has_a_row_of_its_own() -> None:
    past = Past([span(0, 10, 20, waited_s=10.0, count=2), span(0, 20, 60, waited_s=0.001)], [queued(50, 60, 8)])
    lines = as_text(past).splitlines()
    assert lines[0] == "1 engine, 1 min 0 s, 3 calls, busy 83%"
    assert lines[1] == f"    0 {'·' * 10}{'A' * 50}  83%"
    assert lines[2] == f"queue {'▂' * 10}{'·' * 40}{'█' * 10}    8"
    assert lines[4:] == [
        "A f: 3 calls, 50 s, 6.7 s in the queue on average",
        "queue: at most 8 calls waited for an engine at once",
    ]


def test_waits_are_hatched_in_the_picture() -> None:
    past = Past([span(0, 0, 60)], [blocked(0, 15, 45), queued(30, 60, 2000)], [])
    page = as_html(past)
    figure = ElementTree.fromstring(page)
    (hatched,) = (path for path in figure.iter("path") if "stroke-dasharray" in path.attrib)
    assert hatched.attrib["d"] == f"M{92 + PLOT / 4:.1f} 96h{PLOT / 2:.1f}"
    assert [text.text for text in figure.iter("text")][2:4] == ["queue", "2,000"]
    told = [item.text or item[0].tail for item in figure.iter("li")]
    assert told == [
        " f: 1 call, 1 min 0 s, blocked for 30 s",
        " the engine is idle",
        " blocked: the task waits for other tasks, in get or wait",
        " queue: at most 2,000 calls waited for an engine at once",
    ]


def test_a_thousand_engines_with_waits_stay_readable() -> None:
    spans = [span(rank, time, time + 1, waited_s=0.5) for rank in range(1024) for time in range(10)]
    waits = [blocked(rank, time + 0.2, time + 0.2 + rank % 7 / 10) for rank in range(1024) for time in range(10)]
    page = as_html(Past(spans, waits))
    assert len(page) < 300_000
    assert page.count("stroke-dasharray") == 1
    assert len(as_text(Past(spans, waits)).splitlines()) == 1 + TEXT_ROWS + 5


spans_of_anything = st.lists(
    st.builds(
        lambda rank, began, length, name: span(rank, began, began + length, name),
        st.integers(-5, 200),
        st.floats(0, 1e6),
        st.one_of(st.just(0.0), st.floats(1e-9, 1e5)),
        st.sampled_from("abcdefghijkl<"),
    ),
    min_size=1,
    max_size=50,
)


waits_of_anything = st.lists(
    st.builds(
        lambda kind, rank, began, length, name, is_open: WaitRow(
            kind=kind,
            rank=rank if kind == "blocked" else None,
            name=name,
            began_s=began,
            ended_s=began + length,
            open=is_open,
        ),
        st.sampled_from(["blocked", "queued"]),
        st.integers(-5, 200),
        st.floats(0, 1e6),
        st.floats(0, 1e5),
        st.sampled_from("abcdefghijklm<"),
        st.booleans(),
    ),
    max_size=20,
)


@given(spans_of_anything, waits_of_anything)
def test_any_spans_and_waits_can_be_shown(spans: list[SpanRow], waits: list[WaitRow]) -> None:
    past = Past(spans, waits)
    timeline = arrange(past, 8, 20)
    assert len(timeline.rows) <= 8
    assert timeline.engines == len({one.rank for one in spans} | {one.rank for one in past.blocked})
    assert all(calls >= 0 for calls in timeline.queue)
    for row in timeline.rows:
        assert len(row.slices) == 20
        assert all(part is None or (0 <= part.busy <= 1 and 0 <= part.blocked <= 1) for part in row.slices)
    assert all(len(line) <= 200 for line in as_text(past).splitlines())
    figure = ElementTree.fromstring(as_html(past))
    assert figure.tag == "figure"


def test_the_picture_has_one_path_a_colour_and_strength_and_a_text_twin() -> None:
    spans = [span(rank, time, time + 0.5 + rank % 2 / 2, "<f>") for rank in range(1024) for time in range(10)]
    page = as_html(Past(spans))
    assert len(page) < 150_000
    assert page.count("&lt;f&gt;") > 1
    assert "<f>" not in page
    assert 'role="img" aria-label="Timeline: 1,024 engines' in page
    assert "<details><summary>as text</summary><pre>1,024 engines" in page


def test_four_engines_have_rows_of_their_own() -> None:
    figure = ElementTree.fromstring(as_html(Past([span(rank, 0, 1 if rank < 3 else 0.5) for rank in range(4)])))
    labels = [text.text for text in figure.iter("text")]
    waits = [path for path in figure.iter("path") if path.attrib.get("stroke-opacity") == "0.5"]
    assert sum(path.attrib["d"].endswith(f"h{PLOT}") and "fill" not in path.attrib for path in waits) == 4
    assert labels[:2] == ["busy", "100%"]
    assert labels[2:10] == ["0", "100%", "1", "100%", "2", "100%", "3", "50%"]
    assert labels[10:] == ["0 s", "0.2 s", "0.4 s", "0.6 s", "0.8 s", "1 s"]


@pytest.mark.parametrize(
    ("seconds", "first"), [(0.01, "2 ms"), (0.9, "200 ms"), (12.0, "2 s"), (100.0, "20 s"), (3600.0, "16 min 40 s")]
)
def test_times_are_round(seconds: float, first: str) -> None:
    figure = ElementTree.fromstring(as_html(Past([span(0, 5, 5 + seconds)])))
    assert [text.text for text in figure.iter("text")][5] == first


def test_long_labels_are_cut() -> None:
    spans = [span(rank, 0, 1) for rank in range(-100_000, -99_000)]
    assert ">extra 99001-99…<" in as_html(Past(spans))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("background", ["#ffffff", "#111111"])
def test_colours_are_seen_on_light_and_on_dark(colour: str, background: str) -> None:
    dark, light = sorted((luminance(colour), luminance(background)))
    assert (light + 0.05) / (dark + 0.05) >= 3


def test_nothing_else_is_coloured() -> None:
    page = as_html(Past([span(0, 0, 1)]))
    assert set(re.findall(r"#[0-9a-f]{6}", page)) <= set(COLOURS)
    assert len(COLOURS) == MAX_SHADES + 1
    assert timeline_picture.SLICES % TEXT_SLICES == 0
