"""The state of a running cell at one moment, and how it looks as HTML and as text. Pure."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fibernb.model import Bar, Rank
from fibernb.notebook.grouping import format_ranks

STATES: Final = ("waiting", "running", "left", "done", "failed", "lost")
MAX_BARS: Final = 16
MAX_LINES: Final = 5
MAX_WAITED_FOR: Final = 3
MAX_NUMBERED: Final = 64

_SYMBOLS: Final = {"waiting": "·", "running": "▶", "done": "✓", "failed": "✗", "lost": "†"}
_COLOURS: Final = {
    "waiting": "inherit",
    "running": "var(--jp-brand-color1, #1976d2)",
    "done": "var(--jp-success-color1, #388e3c)",
    "failed": "var(--jp-error-color1, #d32f2f)",
    "lost": "var(--jp-warn-color1, #f57c00)",
}
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What is known of a cell while it runs.

    ``states`` counts ranks, or whatever ``unit`` says; ``by_rank`` gives each rank's state, where ranks are counted. Of
    other things that have not ended, it is only known that they are left. ``waits_for`` names what runs in the way.
    """

    states: Mapping[str, int]
    elapsed_s: float
    unit: str = "ranks"
    by_rank: Mapping[Rank, str]
    bars: Sequence[tuple[Rank, Bar]] = ()
    last_lines: Mapping[Rank, str]
    waits_for: Sequence[str] = ()

    @property
    def total(self) -> int:
        """How many ranks or items there are."""
        return sum(self.states.values())

    @property
    def ended(self) -> int:
        """How many of them have ended, well or not."""
        return self.total - sum(self.states.get(state, 0) for state in ("waiting", "running", "left"))


def snapshot_of_ranks(
    by_rank: Mapping[Rank, str],
    *,
    elapsed_s: float,
    bars: Sequence[tuple[Rank, Bar]],
    last_lines: Mapping[Rank, str],
    waits_for: Sequence[str] = (),
) -> Snapshot:
    """The snapshot of a cell that runs on ranks."""
    return Snapshot(
        states=Counter(by_rank.values()),
        by_rank=by_rank,
        elapsed_s=elapsed_s,
        bars=bars,
        last_lines=last_lines,
        waits_for=waits_for,
    )


def summary(snapshot: Snapshot) -> str:
    """One line of text: ``▶ 3 of 8 ranks, 5 running, 2.1 s``."""
    counts = [_count(snapshot, state) for state in STATES if _is_worth_telling(snapshot, state)]
    parts = [f"{_symbol(snapshot)} {snapshot.ended} of {snapshot.total} {snapshot.unit}", *counts]
    return ", ".join([*parts, duration(snapshot.elapsed_s)])


def progress_line(snapshot: Snapshot) -> str:
    """The summary with the overall bar, for a terminal."""
    overall = overall_bar(snapshot.bars)
    return summary(snapshot) if overall is None else f"{summary(snapshot)}, {bar_text(overall)}"


def static_html(snapshot: Snapshot) -> str:
    """What stays in the notebook when the cell has ended."""
    return f'<div role="status">{html.escape(summary(snapshot))}</div>'


def live_html(snapshot: Snapshot) -> str:
    """The whole live view: summary, a mark for every rank, bars, last lines."""
    parts = [
        f'<div role="status">{html.escape(summary(snapshot))}</div>',
        _progress_element(snapshot.ended, snapshot.total, f"{snapshot.unit} that have ended"),
        _grid(snapshot),
        *_bars(snapshot.bars),
        _lines(snapshot.last_lines),
    ]
    return f'<div style="line-height: 1.4">{"".join(parts)}</div>'


def bars_html(bars: Sequence[tuple[Rank, Bar]]) -> str:
    """Bars without a cell's ranks: those of plain tasks."""
    return f'<div style="line-height: 1.4">{"".join(_bars(bars))}</div>'


def bars_text(bars: Sequence[tuple[Rank, Bar]]) -> str:
    """The same as text, one bar a line: ``[3] epochs 4/10 it (40%)``."""
    lines = [f"[{format_ranks([rank])}] {bar_text(bar)}" for rank, bar in bars[:MAX_BARS]]
    return "\n".join([*lines, f"… {len(bars) - MAX_BARS} more bars"] if len(bars) > MAX_BARS else lines)


def overall_bar(bars: Sequence[tuple[Rank, Bar]]) -> Bar | None:
    """All bars with a known total as one, if there are any."""
    known = [bar for _, bar in bars if bar.total is not None]
    if not known:
        return None
    return Bar(
        bar=-1,
        description="overall",
        done=sum(bar.done for bar in known),
        total=sum(bar.total or 0.0 for bar in known),
        unit=known[0].unit,
        elapsed_s=max(bar.elapsed_s for bar in known),
    )


def bar_text(bar: Bar) -> str:
    """``epochs 4/10 it (40%), 2.1 it/s, 3 s left``."""
    done, unit = f"{bar.done:,.6g}", bar.unit
    text = f"{done} {unit}" if bar.total is None else f"{done}/{bar.total:,.6g} {unit} ({_percent(bar)}%)"
    rate = bar.done / bar.elapsed_s if bar.elapsed_s > 0 else 0.0
    if rate > 0:
        text += f", {rate:,.3g} {unit}/s"
        if bar.total is not None and bar.done < bar.total:
            text += f", {duration((bar.total - bar.done) / rate)} left"
    return f"{bar.description.rstrip(': ')} {text}".strip()


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min 5 s``, ``2 h 10 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def without_escapes(text: str) -> str:
    """Text without a terminal's colours."""
    return _ESCAPES.sub("", text)


def _count(snapshot: Snapshot, state: str) -> str:
    text = f"{snapshot.states[state]} {state}"
    if state != "waiting" or not snapshot.waits_for:
        return text
    more = len(snapshot.waits_for) - MAX_WAITED_FOR
    names = ", ".join(snapshot.waits_for[:MAX_WAITED_FOR])
    return f"{text} for {names}" + (f" and {more} more" if more > 0 else "")


def _is_worth_telling(snapshot: Snapshot, state: str) -> bool:
    return bool(snapshot.states.get(state)) and state != "done"


def _symbol(snapshot: Snapshot) -> str:
    if snapshot.ended < snapshot.total:
        return _SYMBOLS["running"]
    if snapshot.states.get("done", 0) == snapshot.total:
        return _SYMBOLS["done"]
    return _SYMBOLS["failed"]


def _percent(bar: Bar) -> int:
    return int(100 * min(1.0, bar.done / bar.total)) if bar.total else 100


def _progress_element(done: float, total: float, label: str) -> str:
    return (
        f'<progress value="{done:g}" max="{max(total, done, 1):g}" style="width: 20em"'
        f' aria-label="{html.escape(label)}"></progress>'
    )


def _grid(snapshot: Snapshot) -> str:
    if not snapshot.by_rank:
        return ""
    numbered = len(snapshot.by_rank) <= MAX_NUMBERED
    marks = "".join(_mark(rank, state, numbered) for rank, state in snapshot.by_rank.items())
    return f'<div role="img" aria-label="{html.escape(summary(snapshot))}">{marks}</div>'


def _mark(rank: Rank, state: str, numbered: bool) -> str:
    text = f"{rank}{_SYMBOLS[state]}&ensp;" if numbered else _SYMBOLS[state]
    return f'<span aria-hidden="true" title="rank {rank}: {state}" style="color: {_COLOURS[state]}">{text}</span>'


def _bars(bars: Sequence[tuple[Rank, Bar]]) -> list[str]:
    if not bars:
        return []
    rows = [_row("all", overall)] if len(bars) > 1 and (overall := overall_bar(bars)) else []
    rows += [_row(format_ranks([rank]), bar) for rank, bar in bars[:MAX_BARS]]
    if len(bars) > MAX_BARS:
        rows.append(f"<div>… {len(bars) - MAX_BARS} more bars</div>")
    return rows


def _row(label: str, bar: Bar) -> str:
    text = html.escape(f"[{label}] {bar_text(bar)}")
    element = "" if bar.total is None else _progress_element(bar.done, bar.total, f"[{label}] {bar.description}")
    return f"<div>{element} {text}</div>"


def _lines(last_lines: Mapping[Rank, str]) -> str:
    ranks_by_line: dict[str, list[Rank]] = {}
    for rank, line in sorted(last_lines.items()):
        ranks_by_line.setdefault(without_escapes(line)[:200], []).append(rank)
    shown = [f"[{format_ranks(ranks)}] {line}" for line, ranks in list(ranks_by_line.items())[:MAX_LINES]]
    if len(ranks_by_line) > MAX_LINES:
        shown.append(f"… {len(ranks_by_line) - MAX_LINES} more")
    return f"<pre>{html.escape(chr(10).join(shown))}</pre>" if shown else ""
