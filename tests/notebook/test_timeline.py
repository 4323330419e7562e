"""Spans arranged into rows and slices of time, as text and as a picture."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibernb.notebook import timeline_picture
from fibernb.notebook.rows import SpanRow
from fibernb.notebook.timeline import MAX_SHADES, OTHERS, TEXT_ROWS, TEXT_SLICES, arrange, as_text, latest
from fibernb.notebook.timeline_picture import COLOURS, PLOT, as_html


def span(rank: int, began_s: float, ended_s: float, name: str = "f", **fields: int) -> SpanRow:
    return SpanRow(rank=rank, name=name, began_s=began_s, ended_s=ended_s, **fields)


def test_nothing_has_run() -> None:
    assert as_text([]) == "nothing has been run yet"
    assert as_html([]) == "<p>nothing has been run yet</p>"


def test_rows_are_engines_and_letters_are_functions() -> None:
    spans = [span(0, 100, 160, "long", count=3), span(1, 100, 115, "short"), span(1, 145, 160, "short", failed=1)]
    lines = as_text(spans, range(3)).splitlines()
    assert lines[0] == "3 engines, 1 min 0 s, 5 calls, busy 50%, 1 failed"
    assert lines[1] == f"0 {'A' * 60} 100%"
    assert lines[2] == f"1 {'B' * 15}{'·' * 30}{'B' * 15}  50%"
    assert lines[3] == f"2 {'·' * 60}   0%"
    assert lines[4].split() == ["0", "s", "1", "min", "0", "s"]
    assert lines[5:] == ["A long: 3 calls, 1 min 0 s", "B short: 2 calls, 30 s, 1 failed"]


def test_a_slice_that_was_idle_for_the_most_part_has_a_small_letter() -> None:
    lines = as_text([span(0, 0, 0.25, "f"), span(0, 59.0, 60.0, "f")]).splitlines()
    assert lines[1].split()[1].startswith("a·")


def test_engines_beside_the_seats_stand_last() -> None:
    timeline = arrange([span(-3, 0, 1), span(2, 0, 1), span(-2, 0, 1)], [0], 10, 4)
    assert [row.label for row in timeline.rows] == ["0", "2", "extra 2", "extra 3"]


def test_many_engines_share_rows() -> None:
    spans = [span(rank, 0, 1 if rank % 2 else 0.5) for rank in range(1024)]
    timeline = arrange(spans, [], 64, 10)
    assert len(timeline.rows) == 64
    assert timeline.rows[1].label == "16-31"
    assert timeline.rows[1].engines == 16
    assert timeline.rows[1].busy == pytest.approx(0.75)
    assert timeline.load[9] == pytest.approx(0.5)
    assert len(as_text(spans).splitlines()) == 1 + TEXT_ROWS + 2


def test_a_band_across_the_last_seat() -> None:
    timeline = arrange([span(rank, 0, 1) for rank in (0, 1, -1, -2)], [], 1, 2)
    assert timeline.rows[0].label == "0-1, extra 1-2"


def test_functions_beyond_the_shades_are_told_together() -> None:
    spans = [span(0, index, index + 0.9 - index / 100, f"f{index}", count=2) for index in range(MAX_SHADES + 3)]
    timeline = arrange(spans, [], 10, 10)
    assert [share.name for share in timeline.shares] == [*(f"f{index}" for index in range(MAX_SHADES)), OTHERS]
    assert timeline.shares[-1].calls == 6
    assert timeline.rows[0].slices[-1] is not None
    assert timeline.rows[0].slices[-1].shade == MAX_SHADES
    assert "* others: 6 calls" in as_text(spans)


def test_short_times_are_told_in_milliseconds() -> None:
    lines = as_text([span(0, 7, 7.0042)]).splitlines()
    assert lines[0] == "1 engine, 4.2 ms, 1 call, busy 100%"
    assert lines[2].split() == ["0", "s", "4.2", "ms"]
    assert lines[3] == "A f: 1 call, 4.2 ms"


def test_the_latest_part() -> None:
    spans = [span(0, 0, 10, "old"), span(1, 5, 95, "long"), span(0, 80, 100, "new"), span(2, 85, 90, "gone")]
    assert latest(spans, 10) == [span(1, 90, 95, "long"), span(0, 90, 100, "new")]
    assert latest(spans, 1e9) == spans
    assert latest([], 10) == []


def test_older_spans_that_are_not_shown_are_told_of() -> None:
    assert "the latest 1 of 50 spans" in as_text([span(0, 0, 1)], total=50)


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


@given(spans_of_anything)
def test_any_spans_can_be_shown(spans: list[SpanRow]) -> None:
    timeline = arrange(spans, [], 8, 20)
    assert len(timeline.rows) <= 8
    assert timeline.engines == len({one.rank for one in spans})
    for row in timeline.rows:
        assert len(row.slices) == 20
        assert all(part is None or 0 <= part.busy <= 1 for part in row.slices)
    assert all(len(line) <= 200 for line in as_text(spans).splitlines())
    figure = ElementTree.fromstring(as_html(spans))
    assert figure.tag == "figure"


def test_the_picture_has_one_path_a_colour_and_strength_and_a_text_twin() -> None:
    spans = [span(rank, time, time + 0.5 + rank % 2 / 2, "<f>") for rank in range(1024) for time in range(10)]
    page = as_html(spans)
    assert len(page) < 150_000
    assert page.count("&lt;f&gt;") > 1
    assert "<f>" not in page
    assert 'role="img" aria-label="Timeline: 1,024 engines' in page
    assert "<details><summary>as text</summary><pre>1,024 engines" in page


def test_four_engines_have_rows_of_their_own() -> None:
    figure = ElementTree.fromstring(as_html([span(rank, 0, 1 if rank < 3 else 0.5) for rank in range(4)]))
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
    figure = ElementTree.fromstring(as_html([span(0, 5, 5 + seconds)]))
    assert [text.text for text in figure.iter("text")][5] == first


def test_long_labels_are_cut() -> None:
    spans = [span(rank, 0, 1) for rank in range(-100_000, -99_000)]
    assert ">extra 99001-99…<" in as_html(spans)


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
    page = as_html([span(0, 0, 1)])
    assert set(re.findall(r"#[0-9a-f]{6}", page)) <= set(COLOURS)
    assert len(COLOURS) == MAX_SHADES + 1
    assert timeline_picture.SLICES % TEXT_SLICES == 0
