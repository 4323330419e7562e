"""``fibernb status NAME``: what a cluster does."""

from __future__ import annotations

import argparse
from typing import Final

import msgspec

from fibernb import config
from fibernb.cli.link import talk_to
from fibernb.cli.output import duration, show, table
from fibernb.core.messages import SeatStatus, Status, StatusRequest
from fibernb.hub.connection import read_connection

HELP: Final = "Show what a cluster does: its seats, its tasks, and why any of them wait."
MAX_ROWS: Final = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of the cluster, or its directory or connection file")
    parser.add_argument("--all", action="store_true", help=f"show every seat, also beyond {MAX_ROWS}")


def run(options: argparse.Namespace) -> int:
    connection = read_connection(options.name, config.load())
    with talk_to(connection) as talk:
        talk.tell(StatusRequest(request=1))
        status = talk.wait_for(Status)
    shown = status.engines if options.all else status.engines[:MAX_ROWS]
    show(_public(connection.name, status), "\n".join(_lines(connection.name, status, shown)), options.json)
    return 0


def _public(name: str, status: Status) -> dict[str, object]:
    """By field names, though the messages travel as arrays."""
    fields = {field: getattr(status, field) for field in Status.__struct_fields__ if field != "request"}
    engines = [{field: getattr(seat, field) for field in SeatStatus.__struct_fields__} for seat in status.engines]
    return {"name": name, **msgspec.to_builtins(fields), "engines": engines}


def _lines(name: str, status: Status, shown: list[SeatStatus]) -> list[str]:
    lines = [
        f"cluster {name} on {status.node}, hub {status.pid}, up {duration(status.uptime_s)}, {status.clients} clients",
        f"seats: {status.seats} declared, {status.ready} ready, {status.busy} busy, {status.starting} starting",
        f"tasks: {status.waiting} waiting for inputs, {status.queued} queued, {status.running} running",
        f"       {status.finished} finished, {status.failed} failed",
    ]
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
