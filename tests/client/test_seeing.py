from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fibernb as fnb
from fibernb.client.session import Session
from fibernb.core.messages import NodeStatus, Status
from fibernb.model import Resources
from tests.client.fake_hub import FakeHub


def test_seats_are_cpus_when_no_nodes_are_told(session: Session, hub: FakeHub) -> None:
    assert fnb.cluster_resources() == fnb.available_resources() == {"CPU": 2.0}
    (node,) = fnb.nodes()
    assert (node["Alive"], node["Resources"]) == (True, {"CPU": 2.0})


def test_nodes(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    status = session.status()
    total = Resources(milli_cpus=2000, milli_gpus=1000, memory_bytes=100, custom={"x": 500})
    nodes = [
        NodeStatus(name="a", alive=True, total=total, free=Resources(milli_cpus=1000)),
        NodeStatus(name="b", alive=True, total=Resources(milli_cpus=1000), free=Resources(milli_cpus=0)),
        NodeStatus(name="c", alive=False, total=total, free=total),
    ]

    def told(*_: object) -> Status:
        return msgspec.structs.replace(status, nodes=nodes)

    monkeypatch.setattr(Session, "status", told)
    assert fnb.cluster_resources() == {"CPU": 3.0, "GPU": 1.0, "memory": 100.0, "x": 0.5}
    assert fnb.available_resources() == {"CPU": 1.0}
    assert [(node["NodeID"], node["Alive"], node["Resources"].get("CPU")) for node in fnb.nodes()] == [
        ("a", True, 2.0),
        ("b", True, 1.0),
        ("c", False, None),
    ]


def test_the_timeline_is_a_trace(session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [{"rank": 0, "name": "work", "count": 3, "began_s": 1.0, "ended_s": 2.0, "failures": 0}]
    wait = {"kind": "blocked", "rank": 0, "name": "work", "task_id": "0x1", "began_s": 1.5, "ended_s": 1.75}
    waits = [wait]

    def state(_: Session, kind: str, *__: Any) -> tuple[list[dict[str, Any]], int]:
        return (rows, 1) if kind == "spans" else (waits, len(waits))

    monkeypatch.setattr(Session, "state", state)
    events = fnb.timeline()
    assert events is not None
    told = [(event["cat"], event["name"], event["dur"]) for event in events if event["ph"] == "X"]
    assert told == [("task", "work", 1e6), ("blocked", "work", 0.25e6)]
    assert fnb.timeline(str(tmp_path / "trace.json")) is None
    assert json.loads((tmp_path / "trace.json").read_text()) == events
