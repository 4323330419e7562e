"""What one source of a cell writes, within bounds, until it is shown. Pure."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Any, Final, NamedTuple

import msgspec

from fibernb.core.messages import Display, Output
from fibernb.notebook.excerpt import shorten, text_size_of
from fibernb.notebook.grouping import Item, LeftOut, Line, Rich

IMAGE_BYTES: Final = 16
"""As many bytes of an image count as much as one byte of text or HTML."""


class SourceOutput:
    """What one rank wrote: its beginning and its end are kept, the middle is counted and digested.

    The beginning can be handed out while the rank still writes. ``max_display_bytes``: a larger display is left out.
    """

    def __init__(self, max_lines: int, max_bytes: int, max_display_bytes: int | None = None) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._max_display_bytes = max_bytes if max_display_bytes is None else max_display_bytes
        self._cleared = False
        self._changed: list[Item] = []  # updates of displays that were handed out
        self._partial: dict[str, str] = {}  # lines without an end, by stream
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

    def end(self) -> None:
        """It writes no more: what has no end of line is a line."""
        for stream, text in self._partial.items():
            self._keep(Line(stream, text))
        self._partial.clear()

    def take_finished(self) -> list[Item]:
        """Everything but lines that have no end yet, which stay."""
        partial, self._partial = self._partial, {}
        items = self.items()
        self._restart()
        self._partial = partial
        return items

    # ---- looking -----------------------------------------------------------------------------------------

    def items(self) -> list[Item]:
        """What is kept and was not handed out, in order."""
        items = [*self._changed, *self._head[self._handed_out :]]
        if self._left.any:
            items.append(self._left.gap())
        items.extend(sized.item for sized in self._tail)
        items.extend(Line(stream, text) for stream, text in self._partial.items() if text)
        return items

    def fresh(self) -> list[Item]:
        """What can be handed out while the source writes: finished lines, as long as the limit is not in sight."""
        return [*self._changed, *self._head[self._handed_out :]]

    @property
    def is_within_a_line(self) -> bool:
        """Whether a line has no end yet."""
        return bool(self._partial)

    @property
    def goes_on(self) -> bool:
        """Whether `items` has something behind what is `fresh`."""
        return bool(self._tail or self._partial)

    def last_line(self) -> str:
        """The last line of text, finished or not; empty if there is none."""
        unfinished = [text for text in self._partial.values() if text.strip()]
        if unfinished:
            return unfinished[-1]
        kept = [sized.item for sized in self._tail] or self._head
        return next((item.text for item in reversed(kept) if isinstance(item, Line) and item.text.strip()), "")

    # ---- handing out -------------------------------------------------------------------------------------

    def hand_out(self, count: int) -> None:
        """So many of the `fresh` items are shown now."""
        updates = min(count, len(self._changed))
        del self._changed[:updates]
        self._handed_out += count - updates

    def take_back(self) -> None:
        """Nothing of it is shown any more."""
        self._handed_out = 0
        self._changed = []

    def take_cleared(self) -> bool:
        """Whether something that was handed out is to go from the screen; asked once."""
        cleared, self._cleared = self._cleared, False
        return cleared

    # ---- keeping -----------------------------------------------------------------------------------------

    def _restart(self) -> None:
        self._clear_at_next = False
        self._head: list[Item] = []
        self._head_bytes = self._head_display_bytes = 0
        self._tail: deque[_Sized] = deque()
        self._tail_bytes = self._tail_display_bytes = 0
        self._left = _Left()
        self._partial = {}
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
        size_bytes = display_size(content.get("data") or {})
        encoded = msgspec.json.encode(content, order="deterministic")
        rich = Rich(encoded, display_id, said.kind == "update", size_bytes)
        if size_bytes > self._max_display_bytes:
            digest = hashlib.blake2b(encoded, digest_size=16).digest()
            self._keep(LeftOut(0, size_bytes, digest, displays=1))
        elif said.kind != "update" or not self._replace(rich):
            self.end()
            self._keep(rich)

    def _replace(self, rich: Rich) -> bool:
        """Whether a display that is kept, or was handed out, has become this one."""
        for at, item in enumerate(self._head):
            if isinstance(item, Rich) and item.display_id == rich.display_id:
                self._head[at] = rich._replace(update=item.update)
                if at < self._handed_out:
                    self._note_change(rich)
                return True
        for at, sized in enumerate(self._tail):
            if isinstance(sized.item, Rich) and sized.item.display_id == rich.display_id:
                self._tail[at] = sized._replace(item=rich._replace(update=sized.item.update))
                return True
        return False

    def _note_change(self, rich: Rich) -> None:
        """The latest update of a display is all that is shown of them."""
        older = (item for item in self._changed if not isinstance(item, Rich) or item.display_id != rich.display_id)
        self._changed = [*older, rich]

    def _keep(self, item: Item) -> None:
        text_bytes = text_size_of(item)
        display_bytes = item.size_bytes if isinstance(item, Rich) else 0
        if not self._tail and self._fits_into_head(text_bytes, display_bytes):
            self._head.append(item)
            self._head_bytes += text_bytes
            self._head_display_bytes += display_bytes
            return
        self._tail.append(_Sized(item, text_bytes, display_bytes))
        self._tail_bytes += text_bytes
        self._tail_display_bytes += display_bytes
        while self._tail_is_too_long() and len(self._tail) > 1:
            self._leave_out(self._tail.popleft())

    def _fits_into_head(self, text_bytes: int, display_bytes: int) -> bool:
        return (
            len(self._head) < self._max_lines // 2
            and self._head_bytes + text_bytes <= self._max_bytes // 2
            and self._head_display_bytes + display_bytes <= self._max_display_bytes
        )

    def _tail_is_too_long(self) -> bool:
        return (
            len(self._tail) > self._max_lines // 2 - 1  # the gap is a line too
            or self._tail_bytes > self._max_bytes // 2
            or self._tail_display_bytes > self._max_display_bytes
        )

    def _leave_out(self, sized: _Sized) -> None:
        self._tail_bytes -= sized.text_bytes
        self._tail_display_bytes -= sized.display_bytes
        self._left.add(sized)


class _Sized(NamedTuple):
    item: Item
    text_bytes: int
    display_bytes: int


class _Left:
    """What is not kept, counted and digested."""

    def __init__(self) -> None:
        self._lines = 0
        self._bytes = 0
        self._displays = 0
        self._digest = hashlib.blake2b(digest_size=16)

    @property
    def any(self) -> bool:
        """Whether there is something."""
        return bool(self._lines or self._displays)

    def add(self, sized: _Sized) -> None:
        """One more."""
        item = sized.item
        if isinstance(item, Line):
            self._lines += 1
        elif isinstance(item, Rich):
            self._displays += 1
        else:
            self._lines, self._displays = self._lines + item.lines, self._displays + item.displays
            self._bytes += item.size_bytes
        self._bytes += sized.text_bytes + sized.display_bytes
        self._digest.update(repr(item).encode(errors="surrogatepass"))

    def gap(self) -> LeftOut:
        """What stands for them."""
        return LeftOut(self._lines, self._bytes, self._digest.digest(), self._displays)


def display_size(data: dict[str, Any]) -> int:
    """How much of a cell's limit a display takes."""
    return sum(_size_of_representation(kind, value) for kind, value in data.items())


def overwritten(line: str, *, finished: bool = True) -> str:
    """What a terminal shows of a line with carriage returns in it: what came after the last one.

    While the line is unfinished, a return at its very end is kept: what follows will overwrite.
    """
    kept = line.rstrip("\r")
    text = kept.rpartition("\r")[2]
    return text if finished or kept == line else text + "\r"


def _size_of_representation(kind: str, value: Any) -> int:
    size_bytes = len(value) if isinstance(value, str) else len(msgspec.json.encode(value))
    return size_bytes // IMAGE_BYTES if kind.startswith("image/") else size_bytes
