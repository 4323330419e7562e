"""Collecting what the ranks of one cell write, within bounds, until it is shown. Pure."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Final, NamedTuple

import msgspec

from fibernb.core.messages import Display, Output, Progress, Said
from fibernb.model import Rank
from fibernb.notebook.excerpt import shorten, size_of
from fibernb.notebook.grouping import Item, LeftOut, Line, Rich

FULL_SHARES: Final = 16
"""How many ranks may each keep as much as the whole cell may show; with more of them each keeps less."""

LEAST_BYTES: Final = 4096
"""What a rank may keep however many there are."""


class Gathered:
    """The output of a cell by source: a rank or, for ``--each``, an item."""

    def __init__(self, *, sources: int, max_lines: int, max_bytes: int) -> None:
        share = max(1, sources // FULL_SHARES)
        self._max_lines = max(2, max_lines // share)
        self._max_bytes = max(LEAST_BYTES, max_bytes // share)
        self._sources: dict[int, SourceOutput] = {}

    def take(self, source: int, said: Said) -> None:
        """Add what a source said."""
        if isinstance(said, Progress):
            return
        output = self._sources.get(source)
        if output is None:
            output = self._sources[source] = SourceOutput(self._max_lines, self._max_bytes)
        output.take(said)

    def items(self) -> dict[int, list[Item]]:
        """Everything kept so far that was not handed out as fresh, unfinished lines included."""
        return {source: output.items() for source, output in self._sources.items()}

    def fresh(self) -> dict[int, Fresh]:
        """What of every source can be shown already and has not been handed out before."""
        return {source: output.fresh() for source, output in self._sources.items()}

    def last_lines(self) -> dict[Rank, str]:
        """The last line of text of every source that has one."""
        last = {source: output.last_line() for source, output in self._sources.items()}
        return {source: line for source, line in last.items() if line}


class Fresh(NamedTuple):
    """What a source wrote since the last look. ``cleared``: what was shown before is to go first."""

    cleared: bool
    items: list[Item]


class SourceOutput:
    """What one rank wrote: its beginning and its end are kept, the middle is counted and digested."""

    def __init__(self, max_lines: int, max_bytes: int) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._cleared = False
        self._handed_out = 0
        self._changed: list[Item] = []  # updates of displays that were handed out
        self._restart()

    def take(self, said: Output | Display) -> None:
        """Add a piece of text, a display, its update, or the order to clear."""
        if isinstance(said, Display) and said.kind == "clear":
            self._clear(wait=bool(msgspec.json.decode(said.content).get("wait")))
            return
        if self._clear_at_next:
            self._clear(wait=False)
        if isinstance(said, Output):
            self._write(said.stream, said.text)
        else:
            self._display(said)

    def items(self) -> list[Item]:
        """What is kept and was not handed out as fresh, in order."""
        items = [*self._changed, *self._head[self._handed_out :]]
        if self._left_lines:
            items.append(LeftOut(self._left_lines, self._left_bytes, self._digest.digest()))
        items.extend(self._tail)
        items.extend(Line(stream, text) for stream, text in self._partial.items() if text)
        return items

    def fresh(self) -> Fresh:
        """What can be shown while the source still writes: finished lines, as long as the limit is not in sight."""
        fresh = Fresh(self._cleared, [*self._changed, *self._head[self._handed_out :]])
        self._cleared = False
        self._changed = []
        self._handed_out = len(self._head)
        return fresh

    def last_line(self) -> str:
        """The last line of text, finished or not; empty if there is none."""
        unfinished = [text for text in self._partial.values() if text.strip()]
        if unfinished:
            return unfinished[-1]
        kept = self._tail or self._head
        return next((item.text for item in reversed(kept) if isinstance(item, Line) and item.text.strip()), "")

    def _restart(self) -> None:
        self._clear_at_next = False
        self._head: list[Item] = []
        self._head_bytes = 0
        self._tail: deque[Item] = deque()
        self._tail_bytes = 0
        self._left_lines = 0
        self._left_bytes = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._partial: dict[str, str] = {}
        self._handed_out = 0
        self._changed = []

    def _clear(self, *, wait: bool) -> None:
        if wait:
            self._clear_at_next = True
        else:
            self._cleared = self._cleared or self._handed_out > 0
            self._restart()

    def _write(self, stream: str, text: str) -> None:
        *lines, rest = (self._partial.pop(stream, "") + text.replace("\r\n", "\n")).split("\n")
        for line in lines:
            self._keep(Line(stream, shorten(overwritten(line), self._max_bytes // 4)))
        if rest:
            self._partial[stream] = shorten(overwritten(rest, finished=False), self._max_bytes // 4)

    def _display(self, said: Display) -> None:
        content = msgspec.json.decode(said.content)
        display_id = (content.pop("transient", None) or {}).get("display_id")
        rich = Rich(msgspec.json.encode(content, order="deterministic"), display_id, said.kind == "update")
        if said.kind == "update" and self._replace(rich):
            return
        self._finish_lines()
        self._keep(rich)

    def _replace(self, rich: Rich) -> bool:
        for kept in (self._head, self._tail):
            for at, item in enumerate(kept):
                if isinstance(item, Rich) and item.display_id == rich.display_id:
                    kept[at] = rich._replace(update=item.update)
                    if kept is self._head and at < self._handed_out:
                        self._changed.append(rich)
                    return True
        return False

    def _finish_lines(self) -> None:
        for stream, text in self._partial.items():
            self._keep(Line(stream, text))
        self._partial.clear()

    def _keep(self, item: Item) -> None:
        size_bytes = size_of(item)
        fits = len(self._head) < self._max_lines // 2 and self._head_bytes + size_bytes <= self._max_bytes // 2
        if fits and not self._tail:
            self._head.append(item)
            self._head_bytes += size_bytes
            return
        self._tail.append(item)
        self._tail_bytes += size_bytes
        while len(self._tail) > self._max_lines // 2 or self._tail_bytes > self._max_bytes // 2:
            self._leave_out(self._tail.popleft())

    def _leave_out(self, item: Item) -> None:
        size_bytes = size_of(item)
        self._tail_bytes -= size_bytes
        self._left_lines += 1
        self._left_bytes += size_bytes
        self._digest.update(repr(item).encode(errors="surrogatepass"))


def overwritten(line: str, *, finished: bool = True) -> str:
    """What a terminal shows of a line with carriage returns in it: what came after the last one.

    While the line is unfinished, a return at its very end is kept: what follows will overwrite.
    """
    kept = line.rstrip("\r")
    text = kept.rpartition("\r")[2]
    return text if finished or kept == line else text + "\r"
