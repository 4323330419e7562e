"""What ran where and when, as a trace that Chrome and Perfetto show (the Trace Event Format). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fibernb.model import rank_name

MICROSECONDS: Final = 1e6
SEATS: Final = 1  # the "process" that holds the seats as its "threads"
BESIDE: Final = 2  # the engines beside them

_PROCESSES: Final = {SEATS: "engines", BESIDE: "engines beside the seats"}


def chrome_trace(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Events of these spans (rows of `State` of the kind "spans"), one thread a rank; times begin at 0."""
    spans = sorted(rows, key=lambda row: float(row["began_s"]))
    if not spans:
        return []
    origin_s = float(spans[0]["began_s"])
    return [*_names(spans), *(_event(span, origin_s) for span in spans)]


def _names(spans: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    ranks = sorted({int(span["rank"]) for span in spans}, key=lambda rank: (rank < 0, abs(rank)))
    for process in sorted({_process(rank) for rank in ranks}):
        yield _named("process_name", process, 0, _PROCESSES[process])
    for rank in ranks:
        yield _named("thread_name", _process(rank), abs(rank), rank_name(rank))


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _event(span: Mapping[str, Any], origin_s: float) -> dict[str, Any]:
    began_s, ended_s = float(span["began_s"]), float(span["ended_s"])
    rank, failures = int(span["rank"]), int(span.get("failed") or 0)
    event = {
        "ph": "X",
        "cat": str(span.get("kind") or "task"),
        "name": str(span["name"]),
        "pid": _process(rank),
        "tid": abs(rank),
        "ts": round((began_s - origin_s) * MICROSECONDS, 3),
        "dur": round(max(0.0, ended_s - began_s) * MICROSECONDS, 3),
        "args": {key: value for key, value in span.items() if key not in ("name", "kind", "began_s", "ended_s")},
    }
    return {**event, "cname": "terrible"} if failures else event


def _process(rank: int) -> int:
    return SEATS if rank >= 0 else BESIDE
