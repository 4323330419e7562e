"""What ran where and when, and what waited, as a trace that Chrome and Perfetto show (the Trace Event Format). Pure.

Categories: "task" is what ran, on the thread of its rank; "blocked" is the part of it that waited for other tasks, on
the same thread; "queued" are calls on their way to an engine, on a process of their own, since many wait at once.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from fibernb.model import rank_name

MICROSECONDS: Final = 1e6
SEATS: Final = 1  # the "process" that holds the seats as its "threads"
BESIDE: Final = 2  # the engines beside them
QUEUE: Final = 3  # calls that wait for one
LEAST_WAIT_S: Final = 0.01  # a shorter stay in the queue is the way to the engine

_PROCESSES: Final = {SEATS: "engines", BESIDE: "engines beside the seats", QUEUE: "calls that wait for an engine"}

Row: TypeAlias = Mapping[str, Any]


def chrome_trace(rows: Iterable[Row], waits: Iterable[Row] = ()) -> list[dict[str, Any]]:
    """Events of rows of `State` of the kinds "spans" and "waits", one thread a rank; times begin at 0."""
    spans = sorted(rows, key=_began)
    waits = list(waits)
    cut = _Ends(spans).cut
    blocked = [cut(wait) for wait in waits if wait["kind"] == "blocked"]
    queued = [*_queued(spans), *(wait for wait in waits if wait["kind"] == "queued")]
    origin_s = min(map(_began, [*spans, *blocked, *queued]), default=0.0)
    return [
        *_names([*spans, *blocked], bool(queued)),
        *(_event(span, origin_s) for span in spans),
        *(_event(wait, origin_s) for wait in blocked),
        *(event for wait in queued for event in _both_ends(wait, origin_s)),
    ]


def _began(row: Row) -> float:
    return float(row["began_s"])


def _queued(spans: Iterable[Row]) -> Iterator[Row]:
    """The stay in the queue of the first call of each of these spans."""
    for span in spans:
        waited_s = float(span.get("waited_s") or 0.0)
        if waited_s >= LEAST_WAIT_S:
            yield {
                "kind": "queued",
                "rank": span["rank"],
                "task_id": span.get("first_task_id", ""),
                "name": span["name"],
                "count": span.get("count", 1),
                "began_s": _began(span) - waited_s,
                "ended_s": _began(span),
            }


class _Ends:
    """When tasks ended, by rank, function and beginning. ``spans``: in the order of their beginnings."""

    def __init__(self, spans: Iterable[Row]) -> None:
        self._times: dict[tuple[Any, Any], list[tuple[float, float]]] = {}
        for span in spans:
            self._times.setdefault((span["rank"], span["name"]), []).append((_began(span), float(span["ended_s"])))

    def cut(self, wait: Row) -> Row:
        """The wait, ended with its task at the latest: the hub hears of an end somewhat later than it is."""
        times = self._times.get((wait["rank"], wait["name"]), [])
        index = bisect.bisect(times, (_began(wait), math.inf)) - 1
        if index < 0 or times[index][1] < _began(wait):
            return wait
        return {**wait, "ended_s": min(float(wait["ended_s"]), times[index][1])}


def _names(spans: Iterable[Row], queued: bool) -> Iterable[dict[str, Any]]:
    ranks = sorted({int(span["rank"]) for span in spans}, key=lambda rank: (rank < 0, abs(rank)))
    for process in sorted({*map(_process, ranks), *([QUEUE] if queued else [])}):
        yield _named("process_name", process, 0, _PROCESSES[process])
    for rank in ranks:
        yield _named("thread_name", _process(rank), abs(rank), rank_name(rank))


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _event(span: Row, origin_s: float) -> dict[str, Any]:
    began_s, ended_s = _began(span), float(span["ended_s"])
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


def _both_ends(wait: Row, origin_s: float) -> Iterator[dict[str, Any]]:
    """Two events: many wait at the same time, which those of one thread cannot."""
    args = {key: value for key, value in wait.items() if key not in ("name", "kind", "began_s", "ended_s")}
    for end, time_s in (("b", _began(wait)), ("e", float(wait["ended_s"]))):
        yield {
            "ph": end,
            "cat": "queued",
            "name": str(wait["name"]),
            "id": str(wait["task_id"]),
            "pid": QUEUE,
            "tid": 0,
            "ts": round((time_s - origin_s) * MICROSECONDS, 3),
            "args": args,
        }


def _process(rank: int) -> int:
    return SEATS if rank >= 0 else BESIDE
