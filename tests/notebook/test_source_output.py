"""What one source writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibernb.notebook.grouping import LeftOut, Line, Rich
from fibernb.notebook.source_output import SourceOutput, display_size, overwritten
from tests.notebook.saying import clear, display, rich, text


@pytest.fixture
def output() -> SourceOutput:
    return SourceOutput(10, 100_000)


def test_lines_are_put_together(output: SourceOutput) -> None:
    for piece in ("a", "b\nc", "", "\n\nd"):
        output.take(text(piece))
    assert output.items() == [Line("stdout", line) for line in ("ab", "c", "", "d")]
    assert output.last_line() == "d"


def test_streams_have_lines_of_their_own(output: SourceOutput) -> None:
    output.take(text("a"))
    output.take(text("oops\n", "stderr"))
    output.take(text("b\n"))
    assert output.items() == [Line("stderr", "oops"), Line("stdout", "ab")]


@given(st.text(alphabet="ab\n\r", max_size=30), st.data())
def test_pieces_do_not_matter(whole: str, data: st.DataObject) -> None:
    one, many = SourceOutput(100, 100_000), SourceOutput(100, 100_000)
    whole = whole.replace("\r\n", "\n")
    one.take(text(whole))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        many.take(text(whole[start:end]))
    shown = [
        [Line(item.stream, overwritten(item.text)) for item in output.items() if isinstance(item, Line)]
        for output in (one, many)
    ]
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("line", "shown"), [("", ""), ("a", "a"), ("a\rb", "b"), ("a\r", "a"), ("a\rb\r\r", "b"), ("\ra", "a")]
)
def test_carriage_returns(line: str, shown: str) -> None:
    assert overwritten(line) == shown


def test_a_text_progress_bar_stays_one_line(output: SourceOutput) -> None:
    for step in range(1000):
        output.take(text(f"\r{step}%"))
    output.take(text("\n"))
    assert output.items() == [Line("stdout", "999%")]


def test_middle_is_left_out_and_digested() -> None:
    def written(middle: str) -> list[object]:
        output = SourceOutput(4, 100_000)
        for line in ("0", "1", middle, "3", "4", "5"):
            output.take(text(f"{line}\n"))
        return list(output.items())

    first = written("2")
    assert [getattr(item, "text", None) for item in first] == ["0", "1", None, "5"]
    assert isinstance(first[2], LeftOut)
    assert first[2].lines == 3
    assert first == written("2") != written("x")


def test_bytes_are_bounded() -> None:
    output = SourceOutput(1_000_000, 10_000)
    for _ in range(1000):
        output.take(text("x" * 99 + "\n"))
    kept = [item for item in output.items() if isinstance(item, Line)]
    assert sum(len(line.text) for line in kept) <= 10_000
    output.take(text("y" * 1_000_000))
    assert len(output.last_line()) < 10_000


def test_display_ends_the_line(output: SourceOutput) -> None:
    output.take(text("before"))
    output.take(display(plain="1"))
    output.take(text("after"))
    assert output.items() == [Line("stdout", "before"), rich(plain="1"), Line("stdout", "after")]


def test_update_replaces(output: SourceOutput) -> None:
    output.take(display(display_id="d", plain="1"))
    output.take(display(plain="other"))
    output.take(display("update", "d", plain="2"))
    assert output.items() == [rich("d", plain="2"), rich(plain="other")]


def test_update_of_an_earlier_cell_is_kept(output: SourceOutput) -> None:
    output.take(display("update", "old", plain="2"))
    assert output.items() == [rich("old", plain="2")._replace(update=True)]
    output.take(display("update", "old", plain="3"))
    assert output.items() == [rich("old", plain="3")._replace(update=True)]


def test_clear(output: SourceOutput) -> None:
    output.take(text("a\n"))
    output.take(clear(wait=True))
    assert output.items() == [Line("stdout", "a")]
    output.take(text("b\n"))
    assert output.items() == [Line("stdout", "b")]
    output.take(clear(wait=False))
    assert output.items() == []
    assert output.last_line() == ""


def test_fresh_output_is_handed_out_once(output: SourceOutput) -> None:
    output.take(text("a\nb\nc"))
    assert output.fresh() == [Line("stdout", "a"), Line("stdout", "b")]
    output.hand_out(1)
    assert output.fresh() == [Line("stdout", "b")]
    output.hand_out(1)
    assert output.fresh() == []
    assert output.items() == [Line("stdout", "c")]
    output.end()
    assert output.fresh() == [Line("stdout", "c")]
    assert not output.goes_on
    assert output.last_line() == "c"


def test_of_the_updates_of_a_display_that_is_shown_the_latest_is_kept(output: SourceOutput) -> None:
    output.take(display(display_id="d", plain="1"))
    output.hand_out(1)
    for plain in ("2", "3"):
        output.take(display("update", "d", plain=plain))
    latest = rich("d", plain="3")._replace(update=True)
    assert output.items() == output.fresh() == [latest]
    output.hand_out(1)
    assert output.fresh() == []


def test_fresh_output_ends_where_the_limit_comes_into_sight(output: SourceOutput) -> None:
    output.take(text("".join(f"{line}\n" for line in range(20))))
    assert len(output.fresh()) == 5
    output.hand_out(5)
    assert output.fresh() == []
    left_out, *tail = output.items()
    assert left_out.lines == 11  # type: ignore[union-attr]
    assert len(tail) == 4
    assert output.goes_on


def test_clearing_what_was_handed_out(output: SourceOutput) -> None:
    output.take(text("a\n"))
    output.take(clear(wait=False))
    assert not output.take_cleared()
    output.take(text("b\n"))
    output.hand_out(1)
    output.take(clear(wait=True))
    assert not output.take_cleared()
    output.take(text("c\n"))
    assert output.take_cleared()
    assert not output.take_cleared()
    assert output.fresh() == [Line("stdout", "c")]


def test_what_is_finished_is_taken_and_the_rest_of_a_line_stays(output: SourceOutput) -> None:
    output.take(text("a\nb"))
    assert output.take_finished() == [Line("stdout", "a")]
    assert output.is_within_a_line
    output.take(text("c\n"))
    assert output.take_finished() == [Line("stdout", "bc")]
    assert not output.is_within_a_line


def test_a_display_that_is_too_large_is_left_out() -> None:
    output = SourceOutput(10, 1000, 2000)
    output.take(display(plain="x" * 1500))
    output.take(display(plain="x" * 2001))
    shown, gap = output.items()
    assert isinstance(shown, Rich)
    assert isinstance(gap, LeftOut)
    assert (gap.lines, gap.displays, gap.size_bytes) == (0, 1, 2001)


def test_the_last_of_many_large_displays_is_kept(output: SourceOutput) -> None:
    for number in range(5):
        output.take(display(plain=f"{number}" * 90_000))
        output.take(text("drawn\n"))
    first, drawn, gap, *_, last, _ = output.items()
    assert first == rich(plain="0" * 90_000)
    assert drawn == Line("stdout", "drawn")
    assert isinstance(gap, LeftOut)
    assert gap.displays == 3
    assert last == rich(plain="4" * 90_000)


def test_images_count_less_than_text() -> None:
    assert display_size({"text/plain": "x" * 100, "image/png": "x" * 1600, "application/json": [1, 2]}) == 205
