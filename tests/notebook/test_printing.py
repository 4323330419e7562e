"""Output as texts and displays."""

import msgspec
import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from fibernb.notebook.grouping import Block, LeftOut, Line, Rich
from fibernb.notebook.printing import ITEMS, RANKS, Printer, Text, pieces


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
