"""What stands for one value on a page of HTML: its own HTML, a picture of it, or a text with marks of its own.

IPython shows one object in the richest form that it has. The values of a cell are many, and share one page.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Mapping
from typing import Any, Final

from IPython.core.getipython import get_ipython

from fibernb.notebook.sendable import without_surrogates


def page_of(value: object) -> str | None:
    """The richest form of a value that a page can hold; None if it has text only."""
    if isinstance(value, type):
        return None
    bundle = _bundle_of(value)
    for kind, page in _PAGES.items():
        made = bundle.get(kind) or _made(kind, value)
        if isinstance(made, str | bytes) and made:
            return page(made, type(value).__name__)
    return None


def _bundle_of(value: object) -> Mapping[str, Any]:
    """All forms that an object makes at once."""
    made = _tried(getattr(type(value), "_repr_mimebundle_", None), value)
    return made if isinstance(made, Mapping) else {}


def _made(kind: str, value: object) -> object:
    """One form of it: by a function that was registered for its type, or by a method of its own."""
    shell: Any = get_ipython()
    formatter = None if shell is None else shell.display_formatter.formatters.get(kind)
    try:
        registered = None if formatter is None else formatter.lookup(value)
    except KeyError:
        registered = None
    return _tried(registered or getattr(type(value), _METHODS[kind], None), value)


def _tried(make: Callable[[Any], object] | None, value: object) -> object:
    """What this makes of the value, without its metadata. A user's code may raise anything: the text will do then."""
    if not callable(make):
        return None
    try:
        made = make(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  the shell does not get over an exit either
        return None
    return made[0] if isinstance(made, tuple) and made else made


def _own(made: str | bytes, _: str) -> str | None:
    return without_surrogates(made) if isinstance(made, str) else None


def _picture(kind: str) -> Callable[[str | bytes, str], str]:
    def picture(made: str | bytes, name: str) -> str:
        data = made if isinstance(made, str) else base64.b64encode(made).decode()
        return f'<img alt="{html.escape(name)}" src="data:{kind};base64,{"".join(data.split())}"/>'

    return picture


def _drawing(made: str | bytes, name: str) -> str:
    data = made if isinstance(made, bytes) else without_surrogates(made).encode()
    return _picture("image/svg+xml")(data, name)


def _formula(made: str | bytes, _: str) -> str | None:
    """Front ends set formulas wherever they stand."""
    return f"<div>{html.escape(without_surrogates(made))}</div>" if isinstance(made, str) else None


def _source(made: str | bytes, _: str) -> str | None:
    return f"<pre>{html.escape(without_surrogates(made))}</pre>" if isinstance(made, str) else None


_PAGES: Final[Mapping[str, Callable[[str | bytes, str], str | None]]] = {
    "text/html": _own,
    "image/svg+xml": _drawing,
    "image/png": _picture("image/png"),
    "image/jpeg": _picture("image/jpeg"),
    "text/latex": _formula,
    "text/markdown": _source,
}
"""By kind, the richest first: what is made of it and of the name of the value's type."""

_METHODS: Final[Mapping[str, str]] = {
    "text/html": "_repr_html_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "text/latex": "_repr_latex_",
    "text/markdown": "_repr_markdown_",
}
