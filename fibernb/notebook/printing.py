"""The output of a cell as what a notebook shows: texts by stream, and displays."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from IPython.display import publish_display_data, update_display

from fibernb.model import Rank
from fibernb.notebook.grouping import Block, LeftOut, Line, Rich, format_ranks


class Text(NamedTuple):
    """Whole lines for one stream."""

    stream: str
    text: str


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


def pieces(blocks: Iterable[Block], labels: Labels) -> list[Text | tuple[tuple[Rank, ...], Rich]]:
    """Texts and displays in order; neighbouring lines of one stream are one text. Pure."""
    shown: list[Text | tuple[tuple[Rank, ...], Rich]] = []
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

    def show(self, blocks: Iterable[Block], labels: Labels = RANKS) -> None:
        """Print texts to their streams and publish displays, in order."""
        for piece in pieces(blocks, labels):
            if isinstance(piece, Text):
                write(piece)
            else:
                self._display(*piece, labels)

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
    return Text(
        "stdout", f"{label} … {item.lines:,} lines ({item.size_bytes:,} bytes) left out; {labels.log} has them …\n"
    )


def _joined(
    shown: Sequence[Text | tuple[tuple[Rank, ...], Rich]],
) -> list[Text | tuple[tuple[Rank, ...], Rich]]:
    joined: list[Text | tuple[tuple[Rank, ...], Rich]] = []
    for stream, run in groupby(shown, key=lambda piece: piece.stream if isinstance(piece, Text) else None):
        if stream is None:
            joined.extend(run)
        else:
            joined.append(Text(stream, "".join(piece.text for piece in run if isinstance(piece, Text))))
    return joined
