"""Live views."""

from __future__ import annotations

import io
from typing import Any

import ipywidgets
import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from fibernb.notebook import view as views
from fibernb.notebook.snapshot import Snapshot, snapshot_of_ranks
from fibernb.notebook.view import NoView, TerminalView, WidgetView, view_for


def snapshot(state: str, elapsed_s: float = 1.0) -> Snapshot:
    return snapshot_of_ranks({0: state}, elapsed_s=elapsed_s, bars=(), last_lines={})


@pytest.fixture
def published(shell: InteractiveShell) -> list[dict[str, Any]]:
    publisher = CapturingDisplayPublisher()
    shell.display_pub = publisher
    return publisher.outputs


def test_widget_view_is_replaced_by_what_is_static(published: list[dict[str, Any]]) -> None:
    cancelled: list[bool] = []
    view = WidgetView(lambda: cancelled.append(True))
    view.show(snapshot("running"))
    (opened,) = published
    assert "application/vnd.jupyter.widget-view+json" in opened["data"]
    page, _, button = view._box.children
    assert isinstance(page, ipywidgets.HTML)
    button.click()
    assert cancelled == [True]
    view.show(snapshot("running", 2.0))
    assert "2 s" in page.value
    assert len(published) == 1
    view.close(snapshot("done", 3.0))
    closed = published[1]
    assert closed["update"]
    assert closed["transient"] == opened["transient"]
    assert closed["data"] == {
        "text/plain": "✓ 1 of 1 ranks, 3.0 s",
        "text/html": "<div>✓ 1 of 1 ranks, 3.0 s</div>",
    }
    assert page.comm is None


def test_a_screen_reader_is_told_seldom_and_only_news(published: list[dict[str, Any]]) -> None:
    view = WidgetView(lambda: None)
    view.show(snapshot("waiting", 1.0))
    page, heard, _ = view._box.children
    view.show(snapshot("running", 2.0))
    assert "1 waiting" in heard.value
    shown = page.value
    view.show(snapshot("running", 6.0))
    assert "1 running" in heard.value
    assert page.value == shown, "one message at a time"
    view.show(snapshot("running", 12.0))
    assert "12 s" in page.value, "there is nothing new to say"
    view.close(snapshot("done"))


def test_nothing_to_cancel_no_button(published: list[dict[str, Any]]) -> None:
    view = WidgetView(None)
    view.show(snapshot("running"))
    assert [type(child) for child in view._box.children] == [ipywidgets.HTML, ipywidgets.HTML]
    view.close(snapshot("done"))


def test_what_is_static_can_be_shown_again_when_the_output_was_cleared(published: list[dict[str, Any]]) -> None:
    view = WidgetView(None)
    view.show(snapshot("running"))
    view.close(snapshot("done", 3.0))
    view.show_again()
    opened, closed, again = published
    assert again["data"] == closed["data"]
    assert not again.get("update")
    assert again["transient"] == opened["transient"]


def test_a_cell_that_ends_at_once_shows_nothing(published: list[dict[str, Any]]) -> None:
    view = WidgetView(lambda: None)
    view.show_again()
    view.close(snapshot("done"))
    assert published == []


def test_show_again(published: list[dict[str, Any]]) -> None:
    view = WidgetView(lambda: None)
    view.show(snapshot("running"))
    view.show_again()
    view.make_room()
    assert published[0] == published[1]
    view.close(snapshot("done"))


def test_terminal_view() -> None:
    stream = io.StringIO()
    view = TerminalView(stream)
    view.show(snapshot("running"))
    view.show_again()
    view.show(snapshot("done"))
    view.close(snapshot("done"))
    lines = stream.getvalue().split("\r")
    assert [line.rstrip() for line in lines] == [
        "",
        "▶ 0 of 1 ranks, 1 running, 1.0 s",
        "✓ 1 of 1 ranks, 1.0 s",
        "",
        "",
    ]
    assert len(lines[2]) == len(lines[1])
    stream = io.StringIO()
    TerminalView(stream).close(snapshot("done"))
    assert stream.getvalue() == ""


def test_which_view(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    def kind(*, wanted: bool = True, background: bool = False) -> type:
        return type(view_for(shell, wanted=wanted, on_cancel=lambda: None, background=background))

    assert kind(wanted=False) is NoView
    assert kind() is NoView
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert kind() is TerminalView
    assert kind(background=True) is NoView
    monkeypatch.setattr(InteractiveShell, "kernel", object(), raising=False)
    assert kind() is kind(background=True) is WidgetView
    monkeypatch.setattr(views, "ipywidgets", None)
    assert kind() is NoView


def test_no_view() -> None:
    view = NoView()
    view.show(snapshot("running"))
    view.make_room()
    view.show_again()
    view.close(snapshot("done"))
