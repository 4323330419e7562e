"""The output of a cell as what a notebook shows: texts by stream, and displays."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from IPython.display import publish_display_data, update_display

from fibernb.engine.streams import MAX_LOG_BYTES
from fibernb.model import Rank
from fibernb.notebook.grouping import Block, LeftOut, Line, Rich, format_ranks

MAX_TURNS: Final = 8
"""How often texts may go from one stream to the other and back; with more, those of each stream are put together."""


class Text(NamedTuple):
    """Whole lines for one stream."""

    stream: str
    text: str


Shown: TypeAlias = tuple[tuple[Rank, ...], Rich]
"""A display, and the ranks that have it in common."""

Piece: TypeAlias = Text | Shown


@dataclass(frozen=True)
class Labels:
    """How sources are named before their lines: ``[0-3]`` for ranks, ``[item 7]`` for items.

    ``log``: where lines that were left out can be read.
    """

    prefix: str = ""
    log: str = "%fiber log"

    def of(self, ranks: Sequence[Rank]) -> str:
        """The label of some sources."""
        return f"[{self.prefix}{format_ranks(ranks)}]"


RANKS = Labels()
ITEMS = Labels(prefix="item ")


def pieces(blocks: Iterable[Block], labels: Labels) -> list[Piece]:
    """Texts and displays in order; neighbouring lines of one stream are one text. Pure."""
    shown: list[Piece] = []
    for block in blocks:
        label = labels.of(block.ranks)
        for item in block.items:
            if isinstance(item, Rich):
                shown.append((block.ranks, item))
            else:
                shown.append(_text_of(item, label, labels))
    return _joined(shown)


class Printer:
    """Shows output in the cell whose context the caller runs in, and remembers displays that may be updated later."""

    def __init__(self) -> None:
        self._displays: dict[tuple[Rank, str], str] = {}  # an engine's own display to the notebook's
        self._sharers: dict[str, set[Rank]] = {}  # who shows through a display of the notebook

    def show(self, blocks: Iterable[Block], labels: Labels = RANKS) -> int:
        """Print texts to their streams and publish displays, in order. Returns how many messages that takes."""
        sent = 0
        for piece in pieces(blocks, labels):
            if isinstance(piece, Text):
                write(piece)
                sent += 1
            else:
                self._display(*piece, labels)
                sent += 2
        return sent

    def _display(self, ranks: tuple[Rank, ...], rich: Rich, labels: Labels) -> None:
        content: dict[str, Any] = msgspec.json.decode(rich.content)
        data, metadata = content.get("data", {}), content.get("metadata") or {}
        shown = self._shown_by(ranks, rich) if rich.update else None
        if shown is not None:
            update_display(data, display_id=shown, metadata=metadata, raw=True)
            return
        write(Text("stdout", f"{labels.of(ranks)}\n"))
        transient = {} if rich.display_id is None else {"display_id": self._register(ranks, rich.display_id)}
        publish_display_data(data, metadata, transient=transient)

    def _register(self, ranks: tuple[Rank, ...], display_id: str) -> str:
        shown = f"fibernb-{uuid.uuid4().hex}"
        for rank in ranks:
            self._displays[rank, display_id] = shown
        self._sharers[shown] = set(ranks)
        return shown

    def _shown_by(self, ranks: tuple[Rank, ...], rich: Rich) -> str | None:
        """The display of an earlier cell that exactly these ranks share."""
        shown = {self._displays.get((rank, rich.display_id or "")) for rank in ranks}
        found = shown.pop()
        return found if found is not None and not shown and self._sharers[found] == set(ranks) else None


def write(text: Text) -> None:
    """Print whole lines to their stream."""
    stream = sys.stderr if text.stream == "stderr" else sys.stdout
    stream.write(text.text)
    stream.flush()


def _text_of(item: Line | LeftOut, label: str, labels: Labels) -> Text:
    if isinstance(item, Line):
        return Text(item.stream, f"{label} {item.text}".rstrip() + "\n")
    return Text("stdout", f"{label} … {_gap(item, labels.log)} …\n")


def _gap(gap: LeftOut, log: str) -> str:
    """What is not there, and where it can be found."""
    lines, displays = _counted(gap.lines, "line"), _counted(gap.displays, "display")
    size = f"({gap.size_bytes:,} bytes) left out"
    if gap.size_bytes >= MAX_LOG_BYTES:
        return f"{lines} {size}; {log} has the last of them"
    if not gap.displays:
        return f"{lines} {size}; {log} has them"
    if not gap.lines:
        return f"{displays} {size}; output_limit_lines and output_limit_bytes of %fiber config let more in"
    return f"{lines} and {displays} {size}; {log} has the lines"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _joined(shown: Sequence[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for is_text, run in groupby(shown, key=lambda piece: isinstance(piece, Text)):
        if is_text:
            joined.extend(_by_stream([piece for piece in run if isinstance(piece, Text)]))
        else:
            joined.extend(run)
    return joined


def _by_stream(texts: Sequence[Text]) -> list[Text]:
    """In order, if they do not go back and forth all the time: every turn is a message."""
    turns = [_together(run) for _, run in groupby(texts, key=lambda text: text.stream)]
    if len(turns) <= MAX_TURNS:
        return turns
    in_streams = sorted(turns, key=lambda text: text.stream, reverse=True)  # "stdout" comes first
    return [_together(run) for _, run in groupby(in_streams, key=lambda text: text.stream)]


def _together(texts: Iterable[Text]) -> Text:
    same = list(texts)
    return Text(same[0].stream, "".join(text.text for text in same))
