"""Collecting what ranks write."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibernb.core.messages import Display, Output, Progress
from fibernb.notebook.gathering import Fresh, Gathered, SourceOutput, overwritten
from fibernb.notebook.grouping import LeftOut, Line, Rich


def text(written: str, stream: str = "stdout") -> Output:
    return Output(task=1, rank=0, sequence=0, stream=stream, text=written)


def display(kind: str = "display", display_id: str | None = None, **data: str) -> Display:
    content = {"data": data, "metadata": {}, "transient": {"display_id": display_id} if display_id else {}}
    return Display(task=1, rank=0, sequence=0, kind=kind, content=msgspec.json.encode(content))


def clear(*, wait: bool) -> Display:
    return Display(task=1, rank=0, sequence=0, kind="clear", content=msgspec.json.encode({"wait": wait}))


def rich(display_id: str | None = None, **data: str) -> Rich:
    return Rich(msgspec.json.encode({"data": data, "metadata": {}}), display_id)


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
    assert [getattr(item, "text", None) for item in first] == ["0", "1", None, "4", "5"]
    assert isinstance(first[2], LeftOut)
    assert first[2].lines == 2
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


def test_gathered() -> None:
    gathered = Gathered(sources=64, max_lines=1000, max_bytes=1_000_000)
    gathered.take(3, text("three\n"))
    gathered.take(1, text("one"))
    gathered.take(2, Progress(task=1, rank=2, sequence=0, bars=[]))
    gathered.take(0, display(plain="1"))
    assert gathered.items() == {3: [Line("stdout", "three")], 1: [Line("stdout", "one")], 0: [rich(plain="1")]}
    assert gathered.last_lines() == {3: "three", 1: "one"}


def test_fresh_output_is_handed_out_once(output: SourceOutput) -> None:
    output.take(text("a\nb\nc"))
    assert output.fresh() == Fresh(False, [Line("stdout", "a"), Line("stdout", "b")])
    assert output.items() == [Line("stdout", "c")]
    output.take(display(display_id="d", plain="1"))
    assert output.fresh().items == [Line("stdout", "c"), rich("d", plain="1")]
    output.take(display("update", "d", plain="2"))
    assert output.items() == [rich("d", plain="2")._replace(update=True)]
    assert output.fresh() == Fresh(False, [rich("d", plain="2")._replace(update=True)])
    assert output.fresh() == Fresh(False, [])
    assert output.last_line() == "c"


def test_fresh_output_ends_where_the_limit_comes_into_sight(output: SourceOutput) -> None:
    output.take(text("".join(f"{line}\n" for line in range(20))))
    assert len(output.fresh().items) == 5
    assert output.fresh().items == []
    left_out, *tail = output.items()
    assert left_out.lines == 10  # type: ignore[union-attr]
    assert len(tail) == 5


def test_clearing_fresh_output(output: SourceOutput) -> None:
    output.take(text("a\n"))
    output.take(clear(wait=False))
    assert output.fresh() == Fresh(False, [])
    output.take(text("b\n"))
    assert output.fresh().items == [Line("stdout", "b")]
    output.take(clear(wait=True))
    assert output.fresh() == Fresh(False, [])
    output.take(text("c\n"))
    assert output.fresh() == Fresh(True, [Line("stdout", "c")])


def test_gathered_fresh() -> None:
    gathered = Gathered(sources=1, max_lines=10, max_bytes=10_000)
    gathered.take(5, text("x\n"))
    assert gathered.fresh() == {5: Fresh(False, [Line("stdout", "x")])}
