"""The timeline as a picture (SVG), for light and dark notebooks, with its text beside it. Pure.

One path holds all parts of a colour and a strength, so that a picture of a thousand engines stays small.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from typing import Final

from fibernb.notebook.snapshot import whole_duration
from fibernb.notebook.timeline import (
    BLOCKED,
    BLOCKED_TEXT,
    Past,
    Row,
    Slice,
    Timeline,
    arrange,
    as_text,
    headline,
    longest,
    queue_text,
    share_text,
)

# Each has a contrast of at least 3 against white and against JupyterLab's dark background; the last is for the others.
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#c9629b", "#8c6bb1", "#a87900", "#4a90c2", "#7f7f7f")
LEVELS: Final = 4  # strengths of a colour, by how busy an engine was

MAX_ROWS: Final = 64
SLICES: Final = 240
WIDTH: Final = 900
LABELS: Final = 92  # pixels at the left
PLOT: Final = WIDTH - LABELS - 40
LOAD_HEIGHT: Final = 36
GAP: Final = 8
TEXT: Final = 11  # pixels
TICKS: Final = 6


def as_html(past: Past) -> str:
    """The picture, its legend, and the same as text behind a fold."""
    text = html.escape(as_text(past))
    if past.empty:
        return f"<p>{text}</p>"
    timeline = arrange(past, MAX_ROWS, SLICES)
    told = html.escape(headline(timeline, len(past.spans), past.total))
    return (
        f'<figure style="margin: 0; color: var(--jp-ui-font-color1, inherit)"><figcaption>{told}</figcaption>'
        f"{_svg(timeline, told)}{_legend(timeline)}"
        f"<details><summary>as text</summary><pre>{text}</pre></details></figure>"
    )


def _svg(timeline: Timeline, told: str) -> str:
    height = _row_height(len(timeline.rows))
    strips = [_strip("busy", "100%", timeline.load, 0)]
    if timeline.queue:
        most = longest(timeline)
        strips.append(_strip("queue", f"{most:,}", [calls / most for calls in timeline.queue], LOAD_HEIGHT + GAP))
    top = (LOAD_HEIGHT + GAP) * len(strips)
    bottom = top + height * len(timeline.rows)
    parts = [
        *strips,
        *_tracks(timeline.rows, top, height),
        *_paths(timeline, top, height),
        *_labels(timeline.rows, top, height),
        *_axis(timeline.seconds, bottom),
    ]
    whole = bottom + 2 * TEXT
    return (
        f'<svg role="img" aria-label="Timeline: {told}" viewBox="0 0 {WIDTH} {whole}" '
        f'style="width: 100%; max-width: {WIDTH}px; height: auto" font-family="sans-serif" font-size="{TEXT}" '
        f'fill="currentColor">{"".join(parts)}</svg>'
    )


def _row_height(rows: int) -> int:
    return 18 if rows <= 16 else 12 if rows <= 32 else 7


def _strip(label: str, most: str, levels: Sequence[float], top: int) -> str:
    """How something of all engines went, from 0 to 1 (which is called ``most``), as an area over time."""
    step, bottom = PLOT / len(levels), top + LOAD_HEIGHT
    points = "".join(
        f"L{LABELS + index * step:.0f} {bottom - LOAD_HEIGHT * level:.0f}h{step:.0f}"
        for index, level in enumerate(levels)
    )
    return (
        f'<text x="{LABELS - 6}" y="{top + TEXT}" text-anchor="end">{label}</text>'
        f'<text x="{LABELS + PLOT + 4}" y="{top + TEXT}">{most}</text>'
        f'<path d="M{LABELS} {top}h{PLOT}v{LOAD_HEIGHT}h-{PLOT}z" fill-opacity="0.08"/>'
        f'<path d="M{LABELS} {bottom}{points}L{LABELS + PLOT} {bottom}z" fill-opacity="0.45"/>'
    )


def _tracks(rows: Sequence[Row], top: int, height: int) -> Iterator[str]:
    """What shows where an engine has no colour: a line, for it is idle."""
    for index, row in enumerate(rows):
        y, thickness = top + index * height, _thickness(height)
        title = f"<title>{html.escape(row.label)}: busy {row.busy:.0%}</title>"
        yield f'<rect x="{LABELS}" y="{y}" width="{PLOT}" height="{thickness}" fill-opacity="0.1">{title}</rect>'
        yield f'<path d="M{LABELS} {y + thickness / 2:g}h{PLOT}" stroke="currentColor" stroke-opacity="0.5"/>'


def _paths(timeline: Timeline, top: int, height: int) -> Iterator[str]:
    shapes: dict[tuple[int, int], list[str]] = {}
    hatched: list[str] = []
    thickness = _thickness(height)
    for index, row in enumerate(timeline.rows):
        y = top + index * height
        for key, begin, end in _runs(row.slices):
            if key[0] == BLOCKED:
                hatched.append(_middle(begin, end, y + thickness / 2))
            else:
                shapes.setdefault(key, []).append(_shape(begin, end, y, thickness))
    if hatched:
        yield _hatching(hatched, thickness)
    for (shade, level), found in sorted(shapes.items()):
        colour = COLOURS[shade]
        name = html.escape(timeline.shares[shade].name)
        opacity = f"{0.25 + 0.75 * level / LEVELS:.2g}"
        yield (f'<path d="{"".join(found)}" fill="{colour}" fill-opacity="{opacity}"><title>{name}</title></path>')


def _runs(slices: Sequence[Slice | None]) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Neighbouring slices of the same colour and strength as one."""
    keys = [None if part is None else (part.shade, math.ceil(part.strength * LEVELS)) for part in slices]
    begin = 0
    for end in range(1, len(keys) + 1):
        key = keys[begin]
        if end == len(keys) or keys[end] != key:
            if key is not None:
                yield key, begin, end
            begin = end


def _shape(begin: int, end: int, y: int, height: int) -> str:
    left, right = (LABELS + PLOT * at / SLICES for at in (begin, end))
    width = f"{right - left:.1f}".removesuffix(".0")
    return f"M{left:.1f} {y}h{width}v{height}h-{width}z"


def _middle(begin: int, end: int, y: float) -> str:
    left, right = (LABELS + PLOT * at / SLICES for at in (begin, end))
    return f"M{left:.1f} {y:g}h{right - left:.1f}"


def _hatching(lines: Sequence[str], thickness: int) -> str:
    """Lines so thick and so dashed that they look hatched: a pattern has a name, which other pictures may have too."""
    return (
        f'<path d="{"".join(lines)}" stroke="currentColor" stroke-opacity="0.75" stroke-width="{thickness}" '
        f'stroke-dasharray="1.5 2.5" fill="none"><title>{BLOCKED_TEXT}</title></path>'
    )


def _thickness(height: int) -> int:
    return height - 2 if height > 8 else height - 1


def _labels(rows: Sequence[Row], top: int, height: int) -> Iterator[str]:
    every = math.ceil((TEXT + 1) / height)
    for index in range(0, len(rows), every):
        y = top + index * height + max(height, TEXT) - 3
        yield f'<text x="{LABELS - 6}" y="{y}" text-anchor="end">{html.escape(_short(rows[index].label))}</text>'
        yield f'<text x="{LABELS + PLOT + 4}" y="{y}">{rows[index].busy:.0%}</text>'


def _short(label: str) -> str:
    return label if len(label) <= 15 else f"{label[:14]}…"


def _axis(seconds: float, bottom: int) -> Iterator[str]:
    yield f'<path d="M{LABELS} {bottom + 1}h{PLOT}" stroke="currentColor" stroke-opacity="0.5" fill="none"/>'
    for at in _ticks(seconds):
        x = LABELS + PLOT * at / seconds
        yield (
            f'<path d="M{x:.1f} {bottom + 1}v4" stroke="currentColor"/>'
            f'<text x="{x:.1f}" y="{bottom + TEXT + 6}" text-anchor="middle">{_time(at, seconds)}</text>'
        )


def _ticks(seconds: float) -> list[float]:
    """Round times, about `TICKS` of them."""
    rough = seconds / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [index * step for index in range(int(seconds / step) + 1)]


def _time(at: float, seconds: float) -> str:
    if seconds < 1:
        return f"{at * 1000:.3g} ms"
    return whole_duration(at) if seconds >= 60 else f"{at:.3g} s"


def _legend(timeline: Timeline) -> str:
    entries = [_entry(COLOURS[shade], share_text(share)) for shade, share in enumerate(timeline.shares)]
    entries.append(_entry("inherit", "the engine is idle", "─"))
    if timeline.blocked:
        entries.append(_entry("inherit", BLOCKED_TEXT, "▥"))
    if timeline.queue:
        entries.append(_entry("inherit", queue_text(timeline), "▟"))
    return f'<ul style="list-style: none; margin: 0.3em 0; padding: 0">{"".join(entries)}</ul>'


def _entry(colour: str, text: str, shape: str = "■") -> str:
    square = f'<span aria-hidden="true" style="color: {colour}">{shape}</span>'
    return f'<li style="display: inline-block; margin-right: 1.2em">{square} {html.escape(text)}</li>'
