"""Keeping long output to a limit, fairly between those who wrote it, and saying what was left out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

from fibernb.notebook.grouping import Block, Item, LeftOut, Line, Rich, format_ranks

DISPLAY_LINES: Final = 4
"""As many lines as this count as much as one display."""

LEAST_LINES: Final = 3
"""Of a block that is shortened: its first line, how much is left out, its last line."""


def excerpt(blocks: Sequence[Block], *, max_lines: int, max_bytes: int) -> list[Block]:
    """At most that many lines, and about that many bytes: of each block its beginning and its end, short blocks whole.

    Displays have the same number of bytes for themselves; the first ones are kept. What is left out is counted in a
    `LeftOut` at its place.
    """
    kept = _fewer_displays(blocks, max(1, max_lines // DISPLAY_LINES), max_bytes)
    kept = _fewer_blocks(kept, max_lines)
    lines = fair_share([_lines(block) for block in kept], max_lines)
    if lines < min(LEAST_LINES, max(map(_lines, kept), default=0)):
        kept = _fewer_blocks(kept, max(1, max_lines // LEAST_LINES))
        lines = max(LEAST_LINES, fair_share([_lines(block) for block in kept], max_lines))
    sizes = fair_share([_size(block) for block in kept], max_bytes)
    return [_shortened(block, lines, sizes) for block in kept]


def fair_share(wants: Sequence[int], total: int) -> int:
    """The largest amount such that nobody getting more than it keeps the sum of all within the total; at least 1."""
    low, high = 1, max(1, *wants) if wants else 1
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(want, middle) for want in wants) <= total:
            low = middle
        else:
            high = middle - 1
    return low


def size_of(item: Item) -> int:
    """Bytes that an item takes."""
    match item:
        case Rich():
            return item.size_bytes
        case _:
            return text_size_of(item)


def lines_of(item: Item) -> int:
    """How many lines of the limit an item takes."""
    return DISPLAY_LINES if isinstance(item, Rich) else 1


def text_size_of(item: Item) -> int:
    """Bytes that an item takes as text; displays have a limit of their own."""
    return _bytes_of(item.text) + 1 if isinstance(item, Line) else 0


def shorten(text: str, max_bytes: int) -> str:
    """The beginning and the end of a long line."""
    size_bytes = _bytes_of(text)
    if size_bytes <= max_bytes:
        return text
    kept = max(1, max_bytes * len(text) // size_bytes // 2)
    return f"{text[:kept]} … {len(text) - 2 * kept:,} characters left out … {text[-kept:]}"


def left_out(items: Iterable[Item]) -> LeftOut:
    """What stands for items that are not shown."""
    lines = size_bytes = displays = 0
    for item in items:
        if isinstance(item, LeftOut):
            lines, size_bytes, displays = lines + item.lines, size_bytes + item.size_bytes, displays + item.displays
        else:
            is_display = isinstance(item, Rich)
            lines, size_bytes, displays = lines + (not is_display), size_bytes + size_of(item), displays + is_display
    return LeftOut(lines, size_bytes, displays=displays)


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _lines(block: Block) -> int:
    return len(block.items)


def _size(block: Block) -> int:
    label = len(format_ranks(block.ranks)) + 3
    return sum(text_size_of(item) + label for item in block.items)


def _fewer_displays(blocks: Sequence[Block], limit: int, max_bytes: int) -> list[Block]:
    kept: list[Block] = []
    for block in blocks:
        items: list[Item] = []
        for item in block.items:
            if isinstance(item, Rich):
                limit, max_bytes = limit - 1, max_bytes - item.size_bytes
                fits = limit >= 0 and max_bytes >= 0
                items.append(item if fits else left_out([item]))
            else:
                items.append(item)
        kept.append(Block(block.ranks, tuple(_brought_together(items))))
    return kept


def _brought_together(items: Iterable[Item]) -> Iterable[Item]:
    """Neighbouring gaps as one."""
    for is_gap, run in groupby(items, key=lambda item: isinstance(item, LeftOut)):
        gaps = list(run)
        yield from gaps if len(gaps) == 1 or not is_gap else [left_out(gaps)]


def _fewer_blocks(blocks: Sequence[Block], limit: int) -> list[Block]:
    if len(blocks) <= limit:
        return list(blocks)
    head = limit // 2
    tail = limit - 1 - head
    middle = blocks[head : len(blocks) - tail]
    ranks = tuple(sorted({rank for block in middle for rank in block.ranks}))
    gap = left_out(item for block in middle for item in block.items)
    return [*blocks[:head], Block(ranks, (gap,)), *blocks[len(blocks) - tail :]]


def _shortened(block: Block, max_lines: int, max_bytes: int) -> Block:
    """The beginning and the end; a gap that is there already grows."""
    if _lines(block) <= max_lines and _size(block) <= max_bytes:
        return block
    items = [
        Line(item.stream, shorten(item.text, max(1, max_bytes // 2))) if isinstance(item, Line) else item
        for item in block.items
    ]
    gap_at = next((at for at, item in enumerate(items) if isinstance(item, LeftOut)), None)
    before, after = (items, items) if gap_at is None else (items[:gap_at], items[gap_at + 1 :])
    room = max_lines - (gap_at is not None or len(items) > max_lines)  # a gap takes a line
    head = _fitting(before, max((room + 1) // 2, room - len(after)), max_bytes / 2, lambda at: at)
    rest = items[head:] if gap_at is None else after
    tail = _fitting(rest, room - head, max_bytes / 2, lambda at: len(rest) - 1 - at)
    middle = items[head : len(items) - tail]
    if not middle:
        return Block(block.ranks, tuple(items))
    return Block(block.ranks, (*items[:head], left_out(middle), *items[len(items) - tail :]))


def _fitting(items: Sequence[Item], max_lines: int, max_bytes: float, position: Callable[[int], int]) -> int:
    size_bytes = 0
    for taken in range(min(len(items), max_lines)):
        size_bytes += text_size_of(items[position(taken)])
        if size_bytes > max_bytes and taken:
            return taken
    return min(len(items), max_lines)
