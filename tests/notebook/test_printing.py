"""Output as texts and displays."""

import msgspec
import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from fibernb.notebook.grouping import Block, LeftOut, Line, Rich
from fibernb.notebook.printing import ITEMS, MAX_TURNS, RANKS, Printer, Text, pieces


@pytest.fixture
def published(shell: InteractiveShell) -> CapturingDisplayPublisher:
    publisher = CapturingDisplayPublisher()
    shell.display_pub = publisher
    return publisher


def rich(text: str, display_id: str | None = None, update: bool = False) -> Rich:
    return Rich(msgspec.json.encode({"data": {"text/plain": text}, "metadata": {}}), display_id, update)


def test_lines_of_a_stream_are_one_text() -> None:
    blocks = [
        Block((0, 1, 2), (Line("stdout", "ready"), Line("stdout", ""))),
        Block((0,), (Line("stderr", "oops"), LeftOut(1200, 9000))),
    ]
    assert pieces(blocks, RANKS) == [
        Text("stdout", "[0-2] ready\n[0-2]\n"),
        Text("stderr", "[0] oops\n"),
        Text("stdout", "[0] … 1,200 lines (9,000 bytes) left out; %fiber log has them …\n"),
    ]
    assert pieces(blocks[:1], ITEMS)[0] == Text("stdout", "[item 0-2] ready\n[item 0-2]\n")


def test_show(published: CapturingDisplayPublisher, capsys: pytest.CaptureFixture[str]) -> None:
    Printer().show([Block((0, 3), (Line("stdout", "a"), Line("stderr", "b"), rich("figure")))])
    captured = capsys.readouterr()
    assert captured.out == "[0,3] a\n[0,3]\n"
    assert captured.err == "[0,3] b\n"
    assert [output["data"] for output in published.outputs] == [{"text/plain": "figure"}]


def test_updates_of_later_cells(published: CapturingDisplayPublisher) -> None:
    printer = Printer()
    printer.show([Block((0, 1), (rich("one", "d"),))])
    printer.show([Block((0, 1), (rich("two", "d", update=True),))])
    first, second = published.outputs
    assert second["update"]
    assert second["transient"] == first["transient"] != {}
    assert second["data"] == {"text/plain": "two"}


def test_an_update_of_some_who_share_a_display_is_shown_anew(published: CapturingDisplayPublisher) -> None:
    printer = Printer()
    printer.show([Block((0, 1), (rich("one", "d"),))])
    printer.show([Block((0,), (rich("two", "d", update=True),)), Block((1, 5), (rich("three", "d", update=True),))])
    assert [output.get("update", False) for output in published.outputs] == [False, False, False]
    printer.show([Block((0,), (rich("four", "d", update=True),))])
    assert published.outputs[3]["update"]
    assert published.outputs[3]["transient"] == published.outputs[1]["transient"]


def test_what_is_left_out_is_named() -> None:
    gaps = [LeftOut(1, 10), LeftOut(0, 10, displays=1), LeftOut(2, 10, displays=1200), LeftOut(2, 50_000_000)]
    (text,) = pieces([Block((0,), tuple(gaps))], RANKS)
    assert isinstance(text, Text)
    assert text.text.splitlines() == [
        "[0] … 1 line (10 bytes) left out; %fiber log has them …",
        "[0] … 1 display (10 bytes) left out; output_limit_lines and output_limit_bytes of %fiber config let more in …",
        "[0] … 2 lines and 1,200 displays (10 bytes) left out; %fiber log has the lines …",
        "[0] … 2 lines (50,000,000 bytes) left out; %fiber log has the last of them …",
    ]


def in_turns(count: int) -> Block:
    return Block((0,), tuple(Line("stdout" if at % 2 else "stderr", f"{at}") for at in range(count)))


def test_streams_keep_their_order_unless_they_go_back_and_forth_all_the_time() -> None:
    few = pieces([in_turns(MAX_TURNS)], RANKS)
    assert [piece.text for piece in few if isinstance(piece, Text)] == [f"[0] {at}\n" for at in range(MAX_TURNS)]
    many = pieces([in_turns(1000), Block((0,), (rich("figure"),)), in_turns(1000)], RANKS)
    assert [piece.stream if isinstance(piece, Text) else "" for piece in many] == [
        "stdout", "stderr", "", "stdout", "stderr",
    ]  # fmt: skip
    assert isinstance(many[0], Text)
    assert many[0].text == "".join(f"[0] {at}\n" for at in range(1, 1000, 2))


def test_messages_are_counted(published: CapturingDisplayPublisher) -> None:
    block = Block((0,), (Line("stdout", "a"), Line("stderr", "b"), rich("figure")))
    assert Printer().show([block]) == 2 + 2
    assert Printer().show([]) == 0
