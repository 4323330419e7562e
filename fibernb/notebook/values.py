"""The values of a cell as text and HTML: by rank, equal ones together, large ones abbreviated."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from IPython.lib.pretty import RepresentationPrinter

from fibernb.errors import message_of
from fibernb.model import Rank
from fibernb.notebook.grouping import format_ranks
from fibernb.notebook.sendable import sendable
from fibernb.notebook.value_pages import page_of

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
        return sendable(text)
    return f"{sendable(text[:MAX_CHARACTERS])} … {len(text) - MAX_CHARACTERS:,} characters more"


def grouped(texts: Iterable[str], ranks: Sequence[Rank]) -> list[Shown]:
    """Equal texts together, the one with the lowest rank first."""
    groups: dict[str, list[Rank]] = {}
    for rank, text in zip(ranks, texts, strict=True):
        groups.setdefault(text, []).append(rank)
    return [Shown(tuple(members), text) for text, members in groups.items()]


def as_text(values: Sequence[object], ranks: Sequence[Rank]) -> str:
    """One line (or one indented paragraph) for each group: ``[0-3] 42``."""
    shown = grouped(_descriptions(values), ranks)
    head, tail = shown[: MAX_GROUPS // 2], shown[len(shown) - MAX_GROUPS // 2 :]
    if len(shown) <= MAX_GROUPS:
        return "\n".join(_paragraph(group) for group in shown)
    left_out = f"… {len(shown) - MAX_GROUPS:,} other values …"
    return "\n".join([*map(_paragraph, head), left_out, *map(_paragraph, tail)])


def as_html(values: Sequence[object], ranks: Sequence[Rank]) -> str | None:
    """A section for each group, if at least one value has HTML or a picture of its own."""
    try:
        pages = list(map(page_of, values))
    except KeyboardInterrupt:  # it took the user too long: the text is enough
        return None
    if not any(pages):
        return None
    texts = _descriptions(values, pages)
    shown = grouped((page or _preformatted(text) for page, text in zip(pages, texts, strict=True)), ranks)
    sections = _fitting([_section(group) for group in shown[:MAX_GROUPS]])
    left_out = len(shown) - len(sections)
    return "\n".join([*sections, *([f"<p>… {left_out:,} other values …</p>"] if left_out else [])])


def _descriptions(values: Sequence[object], pages: Sequence[str | None] = ()) -> list[str]:
    """The text of each value that has no page. An interrupt ends the looking at values; the cell has its result."""
    texts: list[str] = []
    try:
        for value, page in zip_longest(values, pages):
            texts.append("" if page else describe(value))
    except KeyboardInterrupt:
        texts += [f"<{type(value).__name__} whose repr was interrupted>" for value in values[len(texts) :]]
    return texts


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
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  a user's repr may raise anything: the shell does not get over an exit
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}{_why(error)}>"


def _why(error: BaseException) -> str:
    """What Python says of a value that it can show no repr of; what a user's class says is its own affair."""
    is_pythons = isinstance(error, RecursionError | ValueError) and type(error).__module__ == "builtins"
    return f": {message_of(error):.80}" if is_pythons else ""


def _paragraph(shown: Shown) -> str:
    label = f"[{format_ranks(shown.ranks)}] "
    return label + shown.text.replace("\n", "\n" + " " * len(label))


def _section(shown: Shown) -> str:
    return f"<section><strong>[{format_ranks(shown.ranks)}]</strong>{shown.text}</section>"


def _preformatted(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"
