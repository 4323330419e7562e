"""``fibernb status NAME``: what a cluster does."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any, Final

import msgspec

from fibernb import config
from fibernb.cli.link import Talk, talk_to
from fibernb.cli.output import duration, show, table
from fibernb.core.messages import SeatStatus, State, StateRequest, Status, StatusRequest
from fibernb.errors import NotConnected
from fibernb.hub.connection import Connection, read_connection
from fibernb.store.agent import StoreAgent
from fibernb.wire.storetalk import Described

HELP: Final = "Show what a cluster does: its seats, tasks, actors and objects, and why any of them wait."
MAX_ROWS: Final = 40
MAX_OBJECTS: Final = 10
MEGABYTE: Final = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of the cluster, or its directory or connection file")
    parser.add_argument("--all", action="store_true", help=f"show every seat, also beyond {MAX_ROWS}")


def run(options: argparse.Namespace) -> int:
    connection = read_connection(options.name, config.load())
    with talk_to(connection) as talk:
        talk.tell(StatusRequest(request=1))
        status = talk.wait_for(Status)
        actors = _rows(talk, "actors") if status.actors else []
        objects = _largest(_rows(talk, "objects")) if status.objects else []
    store = _store(connection) if any(row.get("blocks") for row in objects) else None
    public = {**_public(connection.name, status), "actor_rows": actors, "largest_objects": objects}
    shown = status.engines if options.all else status.engines[:MAX_ROWS]
    lines = [*_lines(connection.name, status, shown), *_kept(actors, objects, store)]
    show({**public, "store": _by_name(store)}, "\n".join(lines), options.json)
    return 0


def _rows(talk: Talk, kind: str) -> list[dict[str, Any]]:
    """Rows as the hub tells them."""
    talk.tell(StateRequest(request=2, kind=kind))
    rows: list[dict[str, Any]] = msgspec.json.decode(talk.wait_for(State).rows)
    return rows


def _store(connection: Connection) -> Described | None:
    """What the object store has. It is started by being asked, so only when there is something in it."""
    try:
        with closing(StoreAgent(connection.directory, connection.key, "fibernb status", 0)) as store:
            return store.describe()
    except NotConnected:
        return None


def _largest(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(objects, key=_size, reverse=True)[:MAX_OBJECTS]


def _size(row: dict[str, Any]) -> int:
    return int(row.get("size_bytes") or 0)


def _by_name(record: msgspec.Struct | None) -> dict[str, Any] | None:
    """By field names, though messages travel as arrays."""
    if record is None:
        return None
    fields = {field: getattr(record, field) for field in record.__struct_fields__ if field != "request"}
    return {name: _by_name(value) if isinstance(value, msgspec.Struct) else value for name, value in fields.items()}


def _public(name: str, status: Status) -> dict[str, Any]:
    engines = [_by_name(seat) for seat in status.engines]
    nodes = [_by_name(node) for node in status.nodes]
    return {"name": name, **(_by_name(status) or {}), "engines": engines, "nodes": nodes}


def _lines(name: str, status: Status, shown: list[SeatStatus]) -> list[str]:
    lines = [
        f"cluster {name} on {status.node}, hub {status.pid}, up {duration(status.uptime_s)}, {status.clients} clients",
        f"seats: {status.seats} declared, {status.ready} ready, {status.busy} busy, {status.starting} starting",
        f"tasks: {status.waiting} waiting for inputs, {status.queued} queued, {status.running} running",
        f"       {status.finished} finished, {status.failed} failed",
    ]
    if status.actors or status.extra:
        lines.append(f"actors: {status.actors}; engines beside the seats: {status.extra}")
    if status.objects:
        lines.append(f"objects: {status.objects} kept")
    if status.maximum is not None:
        lines.append(f"autoscaling between {status.minimum or 0} and {status.maximum} seats")
    if status.refused:
        lines.append(f"refused peers: {status.refused}")
    lines += [f"pending: {reason}" for reason in status.pending]
    if status.problem:
        lines.append(f"problem: {status.problem}")
    if shown:
        rows = [(seat.rank, seat.state.lower(), seat.pid, seat.queued, seat.deaths, seat.function) for seat in shown]
        lines.append(table(("RANK", "STATE", "PID", "QUEUED", "DEATHS", "RUNS"), rows))
    if len(shown) < len(status.engines):
        lines.append(f"... and {len(status.engines) - len(shown)} more seats (--all)")
    return lines


def _kept(actors: list[dict[str, Any]], objects: list[dict[str, Any]], store: Described | None) -> list[str]:
    """Actors, what the object store has, and who holds the largest objects."""
    lines = []
    if actors:
        rows = [_cells(actor, "class_name", "name", "state", "pid", "restarts", "ended") for actor in actors]
        lines.append(table(("ACTOR", "NAME", "STATE", "PID", "RESTARTS", "ENDED"), rows))
    if store is not None:
        lines.append(
            f"object store: {store.used_bytes // MEGABYTE:,} of {store.arena_bytes // MEGABYTE:,} MB used, "
            f"{store.spilled_bytes // MEGABYTE:,} of {store.spill_limit_bytes // MEGABYTE:,} MB spilled to disk"
        )
    if objects:
        rows = [(_size(row), *_cells(row, "made_by"), ", ".join(row.get("holders") or ())) for row in objects]
        lines.append(table(("BYTES", "MADE BY", "HELD BY"), rows))
    return lines


def _cells(row: dict[str, Any], *fields: str) -> tuple[object, ...]:
    return tuple("" if row.get(field) is None else row[field] for field in fields)
