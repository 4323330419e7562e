"""Spans as a Chrome trace."""

from __future__ import annotations

import json
from typing import Any

import pytest

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


# ---- waits -----------------------------------------------------------------------------------------------


def wait(kind: str = "blocked", **fields: Any) -> dict[str, Any]:
    times = {"began_s": 10.1, "ended_s": 10.2}
    return {"kind": kind, "rank": 0, "task_id": "0x5", "name": "f", "count": 1, **times, "open": False, **fields}


def test_waits_for_other_tasks_stand_on_the_thread_of_the_task() -> None:
    trace = chrome_trace([span()], [wait(), wait(rank=3)])
    told = [(event["cat"], event["tid"], event["ts"], event["dur"]) for event in trace if event["ph"] == "X"]
    assert told == [
        ("task", 0, 0.0, 500_000.0),
        ("blocked", 0, 100_000.0, 100_000.0),
        ("blocked", 3, 100_000.0, 100_000.0),
    ]
    assert [event["args"]["name"] for event in trace if event["name"] == "thread_name"] == ["rank 0", "rank 3"]


def test_a_wait_ends_with_its_task_at_the_latest() -> None:
    spans = [span(), span(began_s=11.0, ended_s=12.0), span(rank=1, ended_s=10.15)]
    waits = [wait(ended_s=10.6), wait(began_s=11.5, ended_s=12.3), wait(began_s=10.7), wait(began_s=9.0, ended_s=9.5)]
    trace = [event for event in chrome_trace(spans, waits) if event.get("cat") == "blocked"]
    assert [event["ts"] + event["dur"] for event in trace] == pytest.approx([1.5e6, 3e6, 1.7e6, 0.5e6])


def test_calls_in_the_queue_have_a_process_of_their_own() -> None:
    spans = [span(waited_s=0.25, first_task_id="0x1"), span(rank=1, waited_s=0.009)]
    trace = chrome_trace(spans, [wait("queued", rank=None, count=7, began_s=10.4, ended_s=11.0, open=True)])
    assert {
        "ph": "M",
        "name": "process_name",
        "pid": 3,
        "tid": 0,
        "args": {"name": "calls that wait for an engine"},
    } in (trace)
    told = [(event["ph"], event["id"], event["ts"], event["args"]["count"]) for event in trace if event["ph"] in "be"]
    assert told == [
        ("b", "0x1", 0.0, 3),
        ("e", "0x1", 250_000.0, 3),
        ("b", "0x5", 650_000.0, 7),
        ("e", "0x5", 1_250_000.0, 7),
    ]
    assert {event["cat"] for event in trace if event["ph"] in "be"} == {"queued"}


def test_a_task_that_waits_for_ever_is_shown_before_anything_has_ended() -> None:
    trace = chrome_trace([], [wait(open=True)])
    assert [event["cat"] for event in trace if event["ph"] == "X"] == ["blocked"]
