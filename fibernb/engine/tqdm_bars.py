"""Makes tqdm on an engine report its bars instead of writing them into the output.

The classes of tqdm stay what they are, so that whoever has imported them already, or derives from them, gets the same.
A bar that is told to write into a file of the user's does so.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from fibernb.progress import LiveBar, are_reported, open_bar


class _Nowhere:
    def write(self, text: str) -> None:
        """Drop it."""

    def flush(self) -> None:
        """There is nothing to flush."""


def report_tqdm() -> None:
    """From now on, bars of tqdm in this process are reported as `fibernb.progress` reports its own."""
    try:
        std = importlib.import_module("tqdm.std")
    except ImportError:
        return
    _patch(std.tqdm)
    _replace_notebook(std)


def _patch(bar_class: Any) -> None:
    """Replace what draws. ``bar_class.live`` is the bar as it is reported."""
    begin, draw, close = bar_class.__init__, bar_class.display, bar_class.close

    def init(self: Any, *args: Any, **options: Any) -> None:
        self.live = None
        own_file = len(args) >= 5 or options.get("file") not in (None, sys.stdout, sys.stderr)
        self.live_wanted = are_reported() and not own_file
        if self.live_wanted:
            options["file"] = _Nowhere()
        begin(self, *args, **options)

    def display(self: Any, msg: str | None = None, pos: int | None = None) -> Any:
        if not self.live_wanted:
            return draw(self, msg, pos)
        if self.live is None:
            self.live = open_bar()
        _copy(self, self.live)
        return True

    def close_reported(self: Any) -> None:
        live = getattr(self, "live", None)
        close(self)
        if live is not None:
            _copy(self, live)
            live.closed = True

    bar_class.__init__, bar_class.display, bar_class.close = init, display, close_reported
    bar_class.monitor_interval = 0  # its thread would only see to it that bars are drawn


def _copy(bar: Any, live: LiveBar | None) -> None:
    if live is not None:
        words = (bar.desc.removesuffix(": "), bar.postfix)
        live.description = " ".join(str(word) for word in words if word)
        live.done, live.total, live.unit = bar.n, bar.total, bar.unit


def _replace_notebook(std: ModuleType) -> None:
    """``tqdm.notebook`` would draw with widgets, which an engine has not."""
    notebook: Any = ModuleType("tqdm.notebook")
    notebook.tqdm = notebook.tqdm_notebook = std.tqdm
    notebook.trange = notebook.tnrange = std.trange
    sys.modules["tqdm.notebook"] = notebook
    package: Any = sys.modules["tqdm"]
    package.notebook = notebook
