"""What ``%fiber`` shows of a cluster, as text and as HTML. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fibernb.client.calls import TITLES
from fibernb.core.messages import SeatStatus, Status
from fibernb.model import Rank
from fibernb.notebook.grouping import format_ranks
from fibernb.notebook.rank_cells import named
from fibernb.notebook.rows import ActorRow, EngineRow, ObjectRow
from fibernb.notebook.snapshot import duration
from fibernb.wire.storetalk import Described

MAX_ROWS: Final = 100
MAX_OBJECTS: Final = 20
MAX_USERS: Final = 5
MAX_RUNS: Final = 5
MAX_NAMED: Final = 50  # characters of ranks

MORE: Final = ("%fiber ps", "%fiber timeline", "%fiber log", "%fiber --help")

SENT_AHEAD: Final = frozenset(TITLES[operation] for operation in ("adopt", "set_names"))

SEAT_STATES: Final = {
    "idle": "idle",
    "busy": "busy",
    "starting": "starting",
    "wanted": "without an engine",
    "draining": "leaving",
    "lost": "lost",
}
"""What people are told of a seat, by the name of its state, in the order of telling."""


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


def troubles(status: Status) -> list[tuple[str, str]]:
    """What keeps things from going on, as headings with their texts."""
    told = [("waiting for", "\n".join(status.pending)), ("problem", status.problem)]
    return [(heading, text) for heading, text in told if text]


def facts(status: Status, about: About) -> list[tuple[str, str]]:
    """The page as headings with their texts, in the order of reading, but for what is in `troubles`."""
    rows = [
        ("cluster", f"{about.name} ({about.backend}, node {status.node or 'unknown'}, up {duration(status.uptime_s)})"),
        ("engines", _engines(status)),
        ("seats", _seats(status)),
        ("runs", runs(status.engines)),
        ("tasks", _tasks(status)),
        ("actors", _actors(about.actors)),
        ("beside the seats", _beside(about.beside)),
        ("memory", "" if about.memory_bytes is None else size(about.memory_bytes)),
        ("objects", f"{status.objects:,} kept for who holds them" if status.objects else ""),
        ("object store", about.store_trouble if about.store is None else store_use(about.store)),
        ("clients", str(status.clients)),
        ("deaths", _deaths(status.engines)),
        ("refused", f"{status.refused} messages that were malformed or not allowed" if status.refused else ""),
    ]
    return [(heading, text) for heading, text in rows if text]


def as_text(status: Status, about: About) -> str:
    """The page for a terminal."""
    parts = [
        table([*facts(status, about), *troubles(status)]),
        *(f"{heading}:\n{text}" for heading, text in holdings(about)),
        f"more: {', '.join(MORE)}",
    ]
    return "\n\n".join(parts)


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
    text = f"{size(store.used_bytes)} of {size(store.arena_bytes)} in {_counted(store.blocks, 'block')}"
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


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _engines(status: Status) -> str:
    parts = [_counted(status.seats, "seat"), f"{status.ready:,} ready", f"{status.busy:,} busy"]
    if status.starting:
        parts.append(f"{status.starting} starting")
    if status.maximum is not None:
        parts.append(f"autoscaling {status.minimum or 0} to {status.maximum}")
    return ", ".join(parts)


def seat_states(status: Status) -> dict[Rank, str]:
    """By rank, what people are told of its seat. One that is not declared any more is on its way out, however far."""
    return {
        engine.rank: SEAT_STATES.get(engine.state, "lost") if engine.rank < status.seats else "leaving"
        for engine in status.engines
    }


def _seats(status: Status) -> str:
    """Which are in which state, where they are not all in the same."""
    by_state: dict[str, list[Rank]] = {}
    for rank, state in seat_states(status).items():
        by_state.setdefault(state, []).append(rank)
    parts = [f"[{named(ranks, MAX_NAMED)}] {state}" for state, ranks in by_state.items()]
    return ", ".join(parts) if len(parts) > 1 else ""


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


def is_at_work(engine: SeatStatus) -> bool:
    """Whether it runs something of the user's, rather than what a cell sends ahead."""
    return engine.task is not None and engine.function not in SENT_AHEAD


def runs(engines: Sequence[SeatStatus]) -> str:
    """What runs where, the longest first: ``train on [0-5] for up to 12 s``."""
    ranks_by_function: dict[str, list[SeatStatus]] = {}
    for engine in engines:
        if is_at_work(engine):
            ranks_by_function.setdefault(engine.function or "a task", []).append(engine)
    longest = {name: max(engine.busy_s for engine in some) for name, some in ranks_by_function.items()}
    told = sorted(ranks_by_function, key=lambda name: -longest[name])
    lines = [_running(name, ranks_by_function[name], longest[name]) for name in told[:MAX_RUNS]]
    return "\n".join([*lines, *([f"{len(told) - MAX_RUNS} more"] if len(told) > MAX_RUNS else [])])


def _running(name: str, engines: Sequence[SeatStatus], longest_s: float) -> str:
    up_to = "up to " if len(engines) > 1 else ""
    return f"{name} on [{named([engine.rank for engine in engines], MAX_NAMED)}] for {up_to}{duration(longest_s)}"


def holdings(about: About) -> list[tuple[str, str]]:
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
