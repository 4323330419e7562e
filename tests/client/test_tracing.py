"""Spans as a Chrome trace."""

from __future__ import annotations

import json
from typing import Any

from fibernb.client.tracing import chrome_trace


def span(**fields: Any) -> dict[str, Any]:
    return {"rank": 0, "name": "f", "began_s": 10.0, "ended_s": 10.5, "count": 3, "failed": 0, **fields}


def test_nothing_ran() -> None:
    assert chrome_trace([]) == []


def test_one_thread_a_rank_and_times_from_the_first_span() -> None:
    trace = chrome_trace([span(rank=1, began_s=11.0, ended_s=11.25), span()])
    assert [(event["name"], event["pid"], event["tid"], event["args"]["name"]) for event in trace[:3]] == [
        ("process_name", 1, 0, "engines"),
        ("thread_name", 1, 0, "rank 0"),
        ("thread_name", 1, 1, "rank 1"),
    ]
    assert [(event["ph"], event["tid"], event["ts"], event["dur"]) for event in trace[3:]] == [
        ("X", 0, 0.0, 500_000.0),
        ("X", 1, 1_000_000.0, 250_000.0),
    ]
    assert trace[3]["args"] == {"rank": 0, "count": 3, "failed": 0}
    json.dumps(trace)


def test_engines_beside_the_seats_stand_by_themselves() -> None:
    trace = chrome_trace([span(rank=-2, kind="actor"), span(rank=2)])
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in trace if event["name"] == "thread_name"}
    assert names == {(1, 2): "rank 2", (2, 2): "extra 2"}
    assert [event["cat"] for event in trace if event["ph"] == "X"] == ["actor", "task"]


def test_failures_are_marked() -> None:
    good, bad = (event for event in chrome_trace([span(), span(failed=1)]) if event["ph"] == "X")
    assert "cname" not in good
    assert bad["cname"] == "terrible"
