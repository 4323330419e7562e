"""The state of a running cell at one moment, and how it is told as text. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fibernb.core.messages import Status
from fibernb.model import Bar, Rank
from fibernb.notebook.grouping import format_ranks

STATES: Final = ("waiting", "running", "left", "done", "failed", "cancelled", "lost", "replaced")
MAX_BARS: Final = 16
MAX_LINES: Final = 5
MAX_WAITED_FOR: Final = 3

_NAMED: Final = ("lost", "replaced")
"""States for which it is told which ranks are in them, if that can be said in `_MAX_NAMED` characters."""

_MAX_NAMED: Final = 80

_GOES_ON: Final = "▶"
_IS_WELL: Final = "✓"
_HAS_FAILED: Final = "✗"
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What is known of a cell while it runs.

    ``states`` counts ranks, or whatever ``unit`` says; ``by_rank`` gives each rank's state, where ranks are counted. Of
    other things that have not ended, it is only known that they are left. ``waits_for`` names what runs in the way,
    ``cluster`` tells of engines and queue.
    """

    states: Mapping[str, int]
    elapsed_s: float
    unit: str = "ranks"
    by_rank: Mapping[Rank, str]
    bars: Sequence[tuple[Rank, Bar]] = ()
    last_lines: Mapping[Rank, str]
    waits_for: Sequence[str] = ()
    cluster: str = ""

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
    cluster: str = "",
) -> Snapshot:
    """The snapshot of a cell that runs on ranks."""
    return Snapshot(
        states=Counter(by_rank.values()),
        by_rank=by_rank,
        elapsed_s=elapsed_s,
        bars=bars,
        last_lines=last_lines,
        waits_for=waits_for,
        cluster=cluster,
    )


def cluster_line(status: Status | None) -> str:
    """The engines and the queue: ``3 of 4 engines ready, 2 busy, 12 tasks queued``."""
    if status is None:
        return ""
    parts = [f"{status.ready} of {status.seats} engines ready, {status.busy} busy", f"{status.queued:,} tasks queued"]
    return ", ".join([*parts, *([status.problem] if status.problem else [])])


def headline(snapshot: Snapshot) -> str:
    """How many have ended: ``▶ 3 of 8 ranks``."""
    return f"{_symbol(snapshot)} {snapshot.ended} of {snapshot.total} {snapshot.unit}"


def counts(snapshot: Snapshot, *, done: bool = False) -> dict[str, str]:
    """By state, how many are in it, for the states in which there are some; in ``done`` only if asked."""
    told = (state for state in STATES if snapshot.states.get(state) and (done or state != "done"))
    return {state: _count(snapshot, state) for state in told}


def summary(snapshot: Snapshot) -> str:
    """One line of text: ``▶ 3 of 8 ranks, 5 running, 2.1 s``."""
    return ", ".join([headline(snapshot), *counts(snapshot).values(), duration(snapshot.elapsed_s)])


def progress_line(snapshot: Snapshot) -> str:
    """The summary with the overall bar, for a terminal."""
    overall = overall_bar(snapshot.bars)
    return summary(snapshot) if overall is None else f"{summary(snapshot)}, {bar_text(overall)}"


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
        text += f", {rate:,.{0 if rate >= 100 else 3}{'f' if rate >= 100 else 'g'}} {unit}/s"
        if bar.total is not None and bar.done < bar.total:
            text += f", {duration((bar.total - bar.done) / rate)} left"
    return f"{bar.description.rstrip(': ')} {text}".strip()


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min 5 s``, ``2 h 10 min``."""
    return f"{seconds:.1f} s" if seconds < 10 else whole_duration(seconds)


def whole_duration(seconds: float) -> str:
    """The same without parts of a second: ``2 s``."""
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
    if state in _NAMED:
        ranks = format_ranks(rank for rank, other in snapshot.by_rank.items() if other == state)
        return f"{text} ({ranks})" if 0 < len(ranks) <= _MAX_NAMED else text
    if state != "waiting" or not snapshot.waits_for:
        return text
    more = len(snapshot.waits_for) - MAX_WAITED_FOR
    names = ", ".join(snapshot.waits_for[:MAX_WAITED_FOR])
    return f"{text} for {names}" + (f" and {more} more" if more > 0 else "")


def _symbol(snapshot: Snapshot) -> str:
    if snapshot.ended < snapshot.total:
        return _GOES_ON
    return _IS_WELL if snapshot.states.get("done", 0) == snapshot.total else _HAS_FAILED


def _percent(bar: Bar) -> int:
    return int(100 * min(1.0, bar.done / bar.total)) if bar.total else 100
