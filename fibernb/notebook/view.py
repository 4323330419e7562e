"""The live view of a running cell: a widget in a notebook, a line in a terminal, nothing where it is not wanted."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from typing import Any, Final, Protocol, TextIO

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display, update_display

from fibernb.notebook.live_page import heard_html, live_html, static_html
from fibernb.notebook.snapshot import Snapshot, progress_line, summary

try:
    import ipywidgets
except ImportError:  # a terminal may do without
    ipywidgets = None

PERIOD_S: Final = 0.1
"""The least time between two messages of a view."""

PATIENCE_S: Final = 0.3
"""A cell that ends sooner has no live view."""

SAYING_S: Final = 5.0
"""The least time between two lines that a screen reader is to say."""

_LEFT: Final = "; no more is known: it ran when the notebook was saved, or when its kernel ended"
_NO_ROOM: Final = {"height": "0", "min_height": "0", "margin": "0", "overflow": "hidden"}


class LiveView(Protocol):
    """Shows how a cell gets on. Called in the context of its cell, at most once a `PERIOD_S`."""

    def show(self, snapshot: Snapshot) -> None:
        """Show this state instead of the one before."""

    def make_room(self) -> None:
        """The cell's output is about to be written."""

    def show_again(self) -> None:
        """The cell's output has been cleared, and the view with it: show it anew."""

    def close(self, snapshot: Snapshot) -> None:
        """The cell has ended, in whatever way: leave what is to stay, and nothing that moves."""


class NoView:
    """Shows nothing."""

    def show(self, snapshot: Snapshot) -> None:
        """Nothing."""

    def make_room(self) -> None:
        """Nothing."""

    def show_again(self) -> None:
        """Nothing."""

    def close(self, snapshot: Snapshot) -> None:
        """Nothing."""


class TerminalView:
    """One line that is written over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def show(self, snapshot: Snapshot) -> None:
        self._write(progress_line(snapshot))

    def make_room(self) -> None:
        if self._width:
            self._write("")

    def show_again(self) -> None:
        """A terminal clears nothing."""

    def close(self, snapshot: Snapshot) -> None:  # noqa: ARG002  what is shown at the end says enough
        self.make_room()

    def _write(self, line: str) -> None:
        self._stream.write(f"\r{line:<{self._width}}" + ("" if line else "\r"))
        self._stream.flush()
        self._width = len(line)


class WidgetView:
    """One widget: a page, a button where something can be cancelled; replaced at the end by what is static.

    The page changes often. What a screen reader is to say has its own place, which changes seldom.
    """

    def __init__(self, on_cancel: Callable[[], None] | None) -> None:
        self._on_cancel = on_cancel
        self._display_id = f"fibernb-{uuid.uuid4().hex}"
        self._page: Any = None
        self._heard: Any = None
        self._said_at_s = 0.0  # of the cell's time
        self._box: Any = None
        self._left: dict[str, str] = {}  # what stands for the widget where its kernel is not
        self._static: dict[str, str] = {}  # what is shown at the end

    def show(self, snapshot: Snapshot) -> None:
        if self._box is None:
            self._open(snapshot)
        elif snapshot.elapsed_s - self._said_at_s >= SAYING_S and self._say(heard_html(snapshot)):
            self._said_at_s = snapshot.elapsed_s  # and that was one message
        else:
            self._page.value = live_html(snapshot)  # sends a message only when it differs

    def make_room(self) -> None:
        """Output has its own place below the widget."""

    def show_again(self) -> None:
        if self._box is not None:
            bundle = {**self._box._repr_mimebundle_(), **self._left}
            display(bundle, display_id=self._display_id, raw=True)
        elif self._static:
            display(self._static, display_id=self._display_id, raw=True)

    def close(self, snapshot: Snapshot) -> None:
        if self._box is None:
            return
        self._static = {"text/plain": summary(snapshot), "text/html": static_html(snapshot)}
        update_display(self._static, display_id=self._display_id, raw=True)
        for widget in (*self._box.children, self._box):
            widget.close()
        self._box = None

    def _open(self, snapshot: Snapshot) -> None:
        self._page = ipywidgets.HTML(live_html(snapshot))
        self._heard = ipywidgets.HTML(heard_html(snapshot), layout=_NO_ROOM)
        self._said_at_s = snapshot.elapsed_s
        self._left = {"text/plain": summary(snapshot) + _LEFT, "text/html": static_html(snapshot, _LEFT)}
        buttons = [] if self._on_cancel is None else [_cancel_button(self._on_cancel)]
        self._box = ipywidgets.VBox([self._page, self._heard, *buttons])
        self.show_again()

    def _say(self, heard: str) -> bool:
        """Whether this was not said before."""
        is_new = bool(self._heard.value != heard)
        self._heard.value = heard
        return is_new


def _cancel_button(on_cancel: Callable[[], None]) -> Any:
    button = ipywidgets.Button(description="Cancel", tooltip="Stop this cell on all of its ranks", icon="stop")
    button.on_click(lambda _: on_cancel())
    return button


def view_for(
    shell: InteractiveShell, *, wanted: bool, on_cancel: Callable[[], None] | None, background: bool = False
) -> LiveView:
    """The view that suits the front end; in a terminal, none that would write where the user types meanwhile."""
    if not wanted:
        return NoView()
    if hasattr(shell, "kernel"):
        return WidgetView(on_cancel) if ipywidgets is not None else NoView()
    return TerminalView(sys.stderr) if sys.stderr.isatty() and not background else NoView()
