"""What ``%fiber`` shows of a cluster, as text and as HTML. Pure."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fibernb.core.messages import SeatStatus, Status
from fibernb.notebook.grouping import format_ranks
from fibernb.notebook.snapshot import duration

MAX_ROWS: Final = 100


class About(NamedTuple):
    """What the status message itself does not say."""

    name: str
    backend: str
    memory_bytes: int | None = None  # of all processes of the cluster, if it is known


def facts(status: Status, about: About) -> list[tuple[str, str]]:
    """The page as headings with their texts, in the order of reading."""
    rows = [
        ("cluster", f"{about.name} ({about.backend}, node {status.node or 'unknown'}, up {duration(status.uptime_s)})"),
        ("engines", _engines(status)),
        ("tasks", _tasks(status)),
        ("memory", "" if about.memory_bytes is None else size(about.memory_bytes)),
        ("clients", str(status.clients)),
        ("deaths", _deaths(status.engines)),
        ("waiting for", "\n".join(status.pending)),
        ("problem", status.problem),
        ("refused", f"{status.refused} messages that were malformed or not allowed" if status.refused else ""),
    ]
    return [(heading, text) for heading, text in rows if text]


def as_text(status: Status, about: About) -> str:
    """The page for a terminal."""
    return table(facts(status, about))


def as_html(status: Status, about: About) -> str:
    """The page for a notebook; every engine is behind a fold."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align: left">{html.escape(heading)}</th>'
        f'<td style="text-align: left; white-space: pre-wrap">{html.escape(text)}</td></tr>'
        for heading, text in facts(status, about)
    )
    engines = html.escape(engine_table(status.engines))
    return (
        f'<table aria-label="Cluster {html.escape(about.name)}"><tbody>{rows}</tbody></table>'
        f"<details><summary>{len(status.engines)} engines</summary><pre>{engines}</pre></details>"
    )


def engine_table(engines: Sequence[SeatStatus]) -> str:
    """One line for each engine: what ``%fiber ps`` shows."""
    if not engines:
        return "no engines"
    rows = [("rank", "state", "pid", "runs", "for", "queued", "deaths"), *map(_engine, engines[:MAX_ROWS])]
    text = table(rows)
    return text if len(engines) <= MAX_ROWS else f"{text}\n… {len(engines) - MAX_ROWS} more engines"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Columns side by side; lines of a last column that has several stand below each other."""
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        label = "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))
        lines.append((label + row[-1].replace("\n", "\n" + " " * len(label))).rstrip())
    return "\n".join(lines)


def size(amount_bytes: float) -> str:
    """``3.4 GB``, in powers of ten."""
    for unit in ("B", "kB", "MB", "GB"):
        if amount_bytes < 1000:
            return f"{amount_bytes:.3g} {unit}"
        amount_bytes /= 1000
    return f"{amount_bytes:,.0f} TB"


def _engines(status: Status) -> str:
    parts = [f"{status.seats} seats", f"{status.ready} ready", f"{status.busy} busy"]
    if status.starting:
        parts.append(f"{status.starting} starting")
    if status.maximum is not None:
        parts.append(f"autoscaling {status.minimum or 0} to {status.maximum}")
    return ", ".join(parts)


def _tasks(status: Status) -> str:
    counts = [
        (status.running, "running"),
        (status.queued, "queued"),
        (status.waiting, "waiting for inputs"),
        (status.finished, "finished"),
        (status.failed, "failed"),
    ]
    return ", ".join(
        f"{count:,} {name}" for count, name in counts if count or name in ("running", "queued", "finished")
    )


def _deaths(engines: Sequence[SeatStatus]) -> str:
    ranks_by_count: dict[int, list[int]] = {}
    for engine in engines:
        if engine.deaths:
            ranks_by_count.setdefault(engine.deaths, []).append(engine.rank)
    total = Counter({engine.rank: engine.deaths for engine in engines}).total()
    details = ", ".join(f"[{format_ranks(ranks)}] {count} each" for count, ranks in sorted(ranks_by_count.items()))
    return f"{total} ({details})" if total else ""


def _engine(engine: SeatStatus) -> tuple[str, ...]:
    return (
        str(engine.rank),
        engine.state,
        str(engine.pid or ""),
        engine.function,
        duration(engine.busy_s) if engine.task is not None else "",
        str(engine.queued or ""),
        str(engine.deaths or ""),
    )
