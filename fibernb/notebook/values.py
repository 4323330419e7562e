"""The values of a cell as text and HTML: by rank, equal ones together, large ones abbreviated."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from IPython.lib.pretty import RepresentationPrinter

from fibernb.model import Rank
from fibernb.notebook.grouping import format_ranks

MAX_CHARACTERS: Final = 2000
"""How much of one value's text is shown."""

MAX_ELEMENTS: Final = 50
"""How many elements of a container, or of an array, are shown."""

MAX_GROUPS: Final = 64
"""How many different values are shown before the middle is left out."""

MAX_HTML: Final = 1_000_000
"""How many characters of HTML are shown of all values together."""


class Shown(NamedTuple):
    """How a value looks, and the ranks whose values look like that."""

    ranks: tuple[Rank, ...]
    text: str


def describe(value: object) -> str:
    """The text of a value; of large arrays, wherever in it they are, type, shape and dtype."""
    text = _text_of(value)
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]} … {len(text) - MAX_CHARACTERS:,} characters more"


def grouped(texts: Iterable[str], ranks: Sequence[Rank]) -> list[Shown]:
    """Equal texts together, the one with the lowest rank first."""
    groups: dict[str, list[Rank]] = {}
    for rank, text in zip(ranks, texts, strict=True):
        groups.setdefault(text, []).append(rank)
    return [Shown(tuple(members), text) for text, members in groups.items()]


def as_text(values: Sequence[object], ranks: Sequence[Rank]) -> str:
    """One line (or one indented paragraph) for each group: ``[0-3] 42``."""
    shown = grouped(map(describe, values), ranks)
    head, tail = shown[: MAX_GROUPS // 2], shown[len(shown) - MAX_GROUPS // 2 :]
    if len(shown) <= MAX_GROUPS:
        return "\n".join(_paragraph(group) for group in shown)
    left_out = f"… {len(shown) - MAX_GROUPS:,} other values …"
    return "\n".join([*map(_paragraph, head), left_out, *map(_paragraph, tail)])


def as_html(values: Sequence[object], ranks: Sequence[Rank]) -> str | None:
    """A section for each group, if at least one value has HTML of its own."""
    pages = [_html_of(value) for value in values]
    if not any(pages):
        return None
    texts = (page or _preformatted(describe(value)) for page, value in zip(pages, values, strict=True))
    shown = grouped(texts, ranks)
    sections = _fitting([_section(group) for group in shown[:MAX_GROUPS]])
    left_out = len(shown) - len(sections)
    return "\n".join([*sections, *([f"<p>… {left_out:,} other values …</p>"] if left_out else [])])


def _fitting(sections: Sequence[str]) -> list[str]:
    """The first ones, as many as fit into the limit."""
    left = MAX_HTML
    fitting: list[str] = []
    for section in sections:
        left -= len(section)
        if left < 0:
            break
        fitting.append(section)
    return fitting


class _Printer(RepresentationPrinter):
    """As IPython shows values, but for large arrays."""

    def pretty(self, obj: Any) -> None:
        short = _short_of(obj)
        if short is None:
            super().pretty(obj)  # type: ignore[no-untyped-call]
        else:
            self.text(short)  # type: ignore[no-untyped-call]


def _short_of(value: object) -> str | None:
    """What a large array is; None for anything else, and for those of pandas, which abbreviate themselves."""
    if isinstance(value, type):
        return None
    try:
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        is_large = isinstance(shape, tuple) and dtype is not None and _elements(shape) > MAX_ELEMENTS
        if not is_large or _is_pandas(value):
            return None
        return f"{type(value).__name__} of shape {shape} and dtype {dtype}"
    except Exception:  # noqa: BLE001  attributes of a user's class may raise anything
        return None


def _is_pandas(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas"


def _elements(shape: tuple[Any, ...]) -> int:
    count = 1
    for length in shape:
        count *= int(length)
    return count


def _text_of(value: object) -> str:
    try:
        written = io.StringIO()
        printer = _Printer(written, max_seq_length=MAX_ELEMENTS)  # type: ignore[no-untyped-call]
        printer.pretty(value)
        printer.flush()  # type: ignore[no-untyped-call]
        return written.getvalue()
    except Exception as error:  # noqa: BLE001  the repr of a user's class may raise anything, and is only shown
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}>"


def _paragraph(shown: Shown) -> str:
    label = f"[{format_ranks(shown.ranks)}] "
    return label + shown.text.replace("\n", "\n" + " " * len(label))


def _html_of(value: object) -> str | None:
    method = None if isinstance(value, type) else getattr(value, "_repr_html_", None)
    try:
        made = method() if callable(method) else None
    except Exception:  # noqa: BLE001  as above: the text is shown then
        return None
    return made if isinstance(made, str) else None


def _section(shown: Shown) -> str:
    return f"<section><strong>[{format_ranks(shown.ranks)}]</strong>{shown.text}</section>"


def _preformatted(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"
