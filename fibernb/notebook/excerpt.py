"""Keeping long output to a limit, fairly between those who wrote it, and saying what was left out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fibernb.notebook.grouping import Block, Item, LeftOut, Line, format_ranks


def excerpt(blocks: Sequence[Block], *, max_lines: int, max_bytes: int) -> list[Block]:
    """At most about that many lines and bytes: of each block its beginning and its end, short blocks whole.

    What is left out is counted in a `LeftOut` at its place.
    """
    kept = _fewer_blocks(blocks, max_lines)
    lines = fair_share([_lines(block) for block in kept], max_lines)
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
    """Bytes that an item takes as text; displays are not counted."""
    return _bytes_of(item.text) + 1 if isinstance(item, Line) else 0


def shorten(text: str, max_bytes: int) -> str:
    """The beginning and the end of a long line."""
    size_bytes = _bytes_of(text)
    if size_bytes <= max_bytes:
        return text
    kept = max(1, max_bytes * len(text) // size_bytes // 2)
    return f"{text[:kept]} … {len(text) - 2 * kept:,} characters left out … {text[-kept:]}"


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _lines(block: Block) -> int:
    return len(block.items)


def _size(block: Block) -> int:
    label = len(format_ranks(block.ranks)) + 3
    return sum(size_of(item) + label for item in block.items)


def _fewer_blocks(blocks: Sequence[Block], limit: int) -> list[Block]:
    if len(blocks) <= limit:
        return list(blocks)
    head = limit // 2
    tail = limit - head
    middle = blocks[head : len(blocks) - tail]
    ranks = tuple(sorted({rank for block in middle for rank in block.ranks}))
    left_out = _left_out([item for block in middle for item in block.items])
    return [*blocks[:head], Block(ranks, (left_out,)), *blocks[-tail:]]


def _shortened(block: Block, max_lines: int, max_bytes: int) -> Block:
    if _lines(block) <= max_lines and _size(block) <= max_bytes:
        return block
    items = [
        Line(item.stream, shorten(item.text, max(1, max_bytes // 2))) if isinstance(item, Line) else item
        for item in block.items
    ]
    head = _fitting(items, (max_lines + 1) // 2, max_bytes / 2, lambda at: at)
    rest = items[head:]
    tail = _fitting(rest, max_lines // 2, max_bytes / 2, lambda at: len(rest) - 1 - at)
    middle = rest[: len(rest) - tail]
    if not middle:
        return Block(block.ranks, tuple(items))
    return Block(block.ranks, (*items[:head], _left_out(middle), *rest[len(rest) - tail :]))


def _fitting(items: Sequence[Item], max_lines: int, max_bytes: float, position: Callable[[int], int]) -> int:
    size_bytes = 0
    for taken in range(min(len(items), max_lines)):
        size_bytes += size_of(items[position(taken)])
        if size_bytes > max_bytes and taken:
            return taken
    return min(len(items), max_lines)


def _left_out(items: Sequence[Item]) -> LeftOut:
    lines = sum(item.lines if isinstance(item, LeftOut) else 1 for item in items)
    size_bytes = sum(item.size_bytes if isinstance(item, LeftOut) else size_of(item) for item in items)
    return LeftOut(lines, size_bytes)
