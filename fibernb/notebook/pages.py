"""Values that a notebook shows as HTML and a terminal as text."""

from __future__ import annotations

from typing import Any


class Page:
    """A text with its HTML.

    Parameters
    ----------
    text : for terminals.
    html : for notebooks; None: the text will do.
    """

    def __init__(self, text: str, html: str | None = None) -> None:
        self.text = text
        self.html = html

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002  IPython's signature
        printer.text(self.text)

    def _repr_html_(self) -> str | None:
        return self.html

    def __repr__(self) -> str:
        return self.text
