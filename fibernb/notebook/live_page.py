"""How a running cell, and what it leaves, look as HTML. Pure."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from fibernb.model import Bar, Rank
from fibernb.notebook import rank_cells
from fibernb.notebook.grouping import format_ranks
from fibernb.notebook.snapshot import (
    MAX_BARS,
    MAX_LINES,
    Snapshot,
    bar_text,
    counts,
    headline,
    overall_bar,
    summary,
    whole_duration,
    without_escapes,
)

_ONLY_HEARD = "position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%)"
_TABLE = "display: grid; grid-template-columns: max-content minmax(3em, 12em) minmax(50%, 1fr); gap: 0 0.7em"


def static_html(snapshot: Snapshot, more: str = "") -> str:
    """What stays in the notebook when the cell has ended, and what there is to add."""
    return f"<div>{html.escape(summary(snapshot) + more)}</div>"


def live_html(snapshot: Snapshot) -> str:
    """The whole live view: how far it is, a cell for every rank, bars, last lines.

    The time is told in whole seconds, so that where nothing happens one page a second differs from that before.
    """
    parts = [
        f"<div>{html.escape(headline(snapshot))}, {whole_duration(snapshot.elapsed_s)}</div>",
        _progress_element(snapshot.ended, snapshot.total, f"{snapshot.unit} that have ended", "30em"),
        rank_cells.picture(snapshot.by_rank) if snapshot.by_rank else "",
        _legend(snapshot),
        f"<div>{html.escape(snapshot.cluster)}</div>" if snapshot.cluster else "",
        _bars(snapshot.bars),
        _lines(snapshot.last_lines),
    ]
    return f'<div style="line-height: 1.5">{"".join(parts)}</div>'


def heard_html(snapshot: Snapshot) -> str:
    """The one line that a screen reader is to say, seen by nobody."""
    said = ", ".join([headline(snapshot), *counts(snapshot).values()])
    return f'<div role="status" style="{_ONLY_HEARD}">{html.escape(said)}</div>'


def bars_html(bars: Sequence[tuple[Rank, Bar]]) -> str:
    """Bars without a cell's ranks: those of plain tasks."""
    return f'<div style="line-height: 1.5">{_bars(bars)}</div>'


def _progress_element(done: float, total: float, label: str, width: str = "100%") -> str:
    return (
        f'<progress value="{done:g}" max="{max(total, done, 1):g}" style="width: {width}; max-width: 100%"'
        f' aria-label="{html.escape(label)}"></progress>'
    )


def _legend(snapshot: Snapshot) -> str:
    items = "".join(
        f'<span style="margin-right: 1.2em">{rank_cells.key(state)} {html.escape(text)}</span>'
        for state, text in counts(snapshot, done=True).items()
    )
    return f"<div>{items}</div>"


def _bars(bars: Sequence[tuple[Rank, Bar]]) -> str:
    if not bars:
        return ""
    rows = [_row("all", overall)] if len(bars) > 1 and (overall := overall_bar(bars)) else []
    rows += [_row(format_ranks([rank]), bar) for rank, bar in bars[:MAX_BARS]]
    table = f'<div style="{_TABLE}">{"".join(rows)}</div>'
    return table if len(bars) <= MAX_BARS else f"{table}<div>… {len(bars) - MAX_BARS} more bars</div>"


def _row(label: str, bar: Bar) -> str:
    element = "" if bar.total is None else _progress_element(bar.done, bar.total, f"[{label}] {bar.description}")
    return (
        f'<span style="text-align: right">[{html.escape(label)}]</span><span>{element}</span>'
        f"<span>{html.escape(bar_text(bar))}</span>"
    )


def _lines(last_lines: Mapping[Rank, str]) -> str:
    ranks_by_line: dict[str, list[Rank]] = {}
    for rank, line in sorted(last_lines.items()):
        ranks_by_line.setdefault(without_escapes(line)[:200], []).append(rank)
    shown = [f"[{format_ranks(ranks)}] {line}" for line, ranks in list(ranks_by_line.items())[:MAX_LINES]]
    if len(ranks_by_line) > MAX_LINES:
        shown.append(f"… {len(ranks_by_line) - MAX_LINES} more")
    style = "margin: 4px 0; white-space: pre-wrap; overflow-wrap: anywhere"
    return f'<pre style="{style}">{html.escape(chr(10).join(shown))}</pre>' if shown else ""
