"""A picture of ranks: one cell for each, whose shape tells its state, and whose colour says it again. Pure."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fibernb.model import Rank
from fibernb.notebook.grouping import format_ranks

MAX_NUMBERED: Final = 64
"""Of more ranks than these, only the first of every row is numbered."""

SHAPES: Final[Mapping[str, str]] = {
    "waiting": "m3 3h2v2h-2z",  # a dot
    "left": "m3 3h2v2h-2z",
    "running": "m1 0 7 4-7 4z",  # a triangle
    "done": "h8v8h-8z",  # a square
    "failed": "m0 2 2-2 2 2 2-2 2 2-2 2 2 2-2 2-2-2-2 2-2-2 2-2z",  # a cross
    "cancelled": "m0 3h8v2h-8z",  # a bar
    "lost": "h8v8h-8zm2 2v4h4v-4z",  # a square with nothing in it
    "replaced": "m4 0 4 4-4 4-4-4z",  # a diamond
}
"""By state, in the order in which they are told of: what is drawn from the upper left corner of a cell of 8 by 8."""

_COLOURS: Final[Mapping[str, str]] = {
    "waiting": "currentColor",
    "left": "currentColor",
    "running": "var(--jp-brand-color1, #1976d2)",
    "done": "var(--jp-success-color1, #388e3c)",
    "failed": "var(--jp-error-color1, #d32f2f)",
    "cancelled": "currentColor",
    "lost": "var(--jp-warn-color0, #e65100)",
    "replaced": "var(--jp-warn-color0, #e65100)",
}


class Look(NamedTuple):
    """What is drawn for each state, and in which colour; states in the order in which they are told of."""

    shapes: Mapping[str, str]
    colours: Mapping[str, str]


RANKS: Final = Look(SHAPES, _COLOURS)

_ROW: Final = 64  # cells
_PITCH: Final = 10
_LABEL_WIDTH: Final = 36
_MAX_NAMED: Final = 200  # characters


def picture(by_rank: Mapping[Rank, str], look: Look = RANKS) -> str:
    """All ranks as one image, described in words for those who do not see it."""
    label = html.escape(described(by_rank, look))
    if len(by_rank) <= MAX_NUMBERED:
        cells = "".join(_numbered(rank, state, look) for rank, state in by_rank.items())
        return (
            f'<div role="img" aria-label="{label}" style="display: flex; flex-wrap: wrap; margin: 4px 0">{cells}</div>'
        )
    ranks = list(by_rank)
    width, height, places, numbers = _packed(ranks)
    drawn = "".join(
        _drawn(state, [(rank, places[rank]) for rank in ranks if by_rank[rank] == state], look) for state in look.shapes
    )
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {height}"'
        f' style="display: block; width: {width}px; max-width: 100%; margin: 4px 0; fill: currentColor;'
        f' font: 11px var(--jp-code-font-family, monospace)">{drawn}{numbers}</svg>'
    )


def key(state: str, look: Look = RANKS) -> str:
    """The shape of a state, to stand before its name."""
    return (
        '<svg aria-hidden="true" viewBox="0 0 8 8" width="9" height="9" style="fill: currentColor">'
        f'<path d="M0 0{look.shapes[state]}" style="fill: {look.colours[state]}"/></svg>'
    )


def described(by_rank: Mapping[Rank, str], look: Look = RANKS) -> str:
    """The ranks in every state, in words: ``running: 0-2; done: 3``."""
    return "; ".join(f"{state}: {found}" for state in look.shapes if (found := named(_in_state(by_rank, state))))


def named(ranks: Sequence[Rank], most: int = _MAX_NAMED) -> str:
    """The ranks, cut to about so many characters: ``0,2,4 … (512)``."""
    text = format_ranks(ranks)
    return text if len(text) <= most else f"{text[:most].rpartition(',')[0]} … ({len(ranks)})"


def _numbered(rank: Rank, state: str, look: Look) -> str:
    return f'<span title="rank {rank}: {state}" style="min-width: 3.2em">{key(state, look)} {rank}</span>'


def _packed(ranks: Sequence[Rank]) -> tuple[int, int, dict[Rank, tuple[int, int]], str]:
    """Width, height, the place of every rank, and the numbers of rows."""
    places = {
        rank: (_LABEL_WIDTH + index % _ROW * _PITCH, index // _ROW * _PITCH + 1) for index, rank in enumerate(ranks)
    }
    firsts = ranks[::_ROW]
    labels = "".join(
        f'<text x="{_LABEL_WIDTH - 6}" y="{places[rank][1] + 8}" text-anchor="end">{rank}</text>' for rank in firsts
    )
    return _LABEL_WIDTH + _ROW * _PITCH, len(firsts) * _PITCH + 2, places, labels


def _drawn(state: str, cells: Sequence[tuple[Rank, tuple[int, int]]], look: Look) -> str:
    if not cells:
        return ""
    path = "".join(f"M{x} {y}{look.shapes[state]}" for _, (x, y) in cells)
    title = f"{state}: {named([rank for rank, _ in cells])}"
    return f'<path d="{path}" style="fill: {look.colours[state]}"><title>{html.escape(title)}</title></path>'


def _in_state(by_rank: Mapping[Rank, str], state: str) -> list[Rank]:
    return [rank for rank, other in by_rank.items() if other == state]
