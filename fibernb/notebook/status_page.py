"""What ``%fiber`` shows of a cluster, as text and as HTML. Pure."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fibernb.core.messages import SeatStatus, Status
from fibernb.notebook.grouping import format_ranks
from fibernb.notebook.rows import ActorRow, EngineRow, ObjectRow
from fibernb.notebook.snapshot import duration
from fibernb.wire.storetalk import Described

MAX_ROWS: Final = 100
MAX_OBJECTS: Final = 20
MAX_USERS: Final = 5


class About(NamedTuple):
    """What the status message itself does not say."""

    name: str
    backend: str
    memory_bytes: int | None = None  # of all processes of the cluster, if it is known
    actors: Sequence[ActorRow] = ()
    beside: Sequence[EngineRow] = ()  # engines beside the seats
    objects: Sequence[ObjectRow] = ()  # the largest, in that order
    store: Described | None = None  # None: there is no object store yet,
    store_trouble: str = ""  # or this keeps it from answering


def facts(status: Status, about: About) -> list[tuple[str, str]]:
    """The page as headings with their texts, in the order of reading."""
    rows = [
        ("cluster", f"{about.name} ({about.backend}, node {status.node or 'unknown'}, up {duration(status.uptime_s)})"),
        ("engines", _engines(status)),
        ("tasks", _tasks(status)),
        ("actors", _actors(about.actors)),
        ("beside the seats", _beside(about.beside)),
        ("memory", "" if about.memory_bytes is None else size(about.memory_bytes)),
        ("objects", f"{status.objects:,} kept for who holds them" if status.objects else ""),
        ("object store", about.store_trouble if about.store is None else store_use(about.store)),
        ("clients", str(status.clients)),
        ("deaths", _deaths(status.engines)),
        ("waiting for", "\n".join(status.pending)),
        ("problem", status.problem),
        ("refused", f"{status.refused} messages that were malformed or not allowed" if status.refused else ""),
    ]
    return [(heading, text) for heading, text in rows if text]


def as_text(status: Status, about: About) -> str:
    """The page for a terminal."""
    parts = [table(facts(status, about)), *(f"{heading}:\n{text}" for heading, text in _holdings(about))]
    return "\n\n".join(parts)


def as_html(status: Status, about: About) -> str:
    """The page for a notebook; engines, actors and objects are behind folds."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align: left">{html.escape(heading)}</th>'
        f'<td style="text-align: left; white-space: pre-wrap">{html.escape(text)}</td></tr>'
        for heading, text in facts(status, about)
    )
    folds = [(f"{len(status.engines)} engines", engine_table(status.engines, about.beside)), *_holdings(about)]
    return f'<table aria-label="Cluster {html.escape(about.name)}"><tbody>{rows}</tbody></table>' + "".join(
        f"<details><summary>{html.escape(heading)}</summary><pre>{html.escape(text)}</pre></details>"
        for heading, text in folds
    )


def engine_table(engines: Sequence[SeatStatus], beside: Sequence[EngineRow] = ()) -> str:
    """One line for each engine: what ``%fiber ps`` shows."""
    lines = [*map(_engine, engines), *map(_engine_beside, beside)]
    return _table_of("engines", ("rank", "state", "pid", "runs", "for", "queued", "deaths"), lines, MAX_ROWS)


def actor_table(actors: Sequence[ActorRow]) -> str:
    """One line for each actor."""
    heads = ("actor", "name", "state", "pid", "running", "queued", "restarts", "ended")
    return _table_of("actors", heads, [_actor(actor) for actor in actors], MAX_ROWS)


def object_table(objects: Sequence[ObjectRow]) -> str:
    """Who holds what: one line for each object, the largest first."""
    return _table_of("objects", ("size", "made by", "held by"), [_object(row) for row in objects], MAX_OBJECTS)


def store_use(store: Described) -> str:
    """``1.2 GB of 3 GB in 14 blocks, 400 MB of 20 GB spilled to disk``."""
    text = f"{size(store.used_bytes)} of {size(store.arena_bytes)} in {store.blocks:,} blocks"
    if store.spilled_bytes:
        text += f", {size(store.spilled_bytes)} of {size(store.spill_limit_bytes)} spilled to disk"
    users = sorted(store.pinned.items(), key=lambda item: -item[1])[:MAX_USERS]
    mapped = ", ".join(f"{owner} {size(amount)}" for owner, amount in users if amount)
    return f"{text}\nin use: {mapped}" if mapped else text


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


def _table_of(what: str, heads: tuple[str, ...], lines: Sequence[tuple[str, ...]], most: int) -> str:
    if not lines:
        return f"no {what}"
    text = table([heads, *lines[:most]])
    return text if len(lines) <= most else f"{text}\n… {len(lines) - most} more {what}"


def _holdings(about: About) -> list[tuple[str, str]]:
    """Headings with tables of what there is beside the seats."""
    found = []
    if about.actors:
        found.append(("actors", actor_table(about.actors)))
    if about.objects:
        found.append(("largest objects", object_table(about.objects)))
    return found


def _actors(actors: Sequence[ActorRow]) -> str:
    states = Counter(actor.state.lower() for actor in actors)
    return ", ".join(f"{count} {state}" for state, count in states.most_common())


def _beside(engines: Sequence[EngineRow]) -> str:
    if not engines:
        return ""
    serving = sum(bool(engine.actor_id) for engine in engines)
    others = Counter(engine.state for engine in engines if not engine.actor_id)
    parts = [f"{serving} with actors"] if serving else []
    parts += [f"{count} {state}" for state, count in others.most_common()]
    noun = "engine" if len(engines) == 1 else "engines"
    return f"{len(engines)} {noun}: {', '.join(parts)}"


def _actor(actor: ActorRow) -> tuple[str, ...]:
    return (
        actor.class_name,
        actor.name,
        actor.state.lower(),
        str(actor.pid or ""),
        str(actor.running or ""),
        str(actor.queued or ""),
        str(actor.restarts or ""),
        actor.ended,
    )


def _object(row: ObjectRow) -> tuple[str, ...]:
    holders = list(row.holders[:MAX_USERS])
    if len(row.holders) > MAX_USERS:
        holders.append(f"{len(row.holders) - MAX_USERS} more")
    if row.uses:
        holders.append("1 task or value" if row.uses == 1 else f"{row.uses} tasks or values")
    amount = size(row.size_bytes) if row.size_bytes else row.state.lower()
    return amount, row.made_by or "a task", ", ".join(holders)


def _engine_beside(engine: EngineRow) -> tuple[str, ...]:
    return (
        format_ranks([engine.rank]),
        engine.state,
        str(engine.pid or ""),
        engine.function,
        duration(engine.busy_s) if engine.function else "",
        str(engine.queued or ""),
        str(engine.deaths or ""),
    )


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
