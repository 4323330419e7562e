"""The verbs that show things, on a cluster that is faked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import cast

import msgspec
import pytest

from fibernb.client.cluster import Cluster
from fibernb.errors import ConfigError, NotConnected
from fibernb.notebook.looking import about_of
from fibernb.notebook.memory import memory_of
from fibernb.notebook.rows import ActorRow, EngineRow, ask
from fibernb.notebook.usage import UsageError
from tests.notebook.conftest import Notebook
from tests.notebook.fake_cluster import FakeCluster, FakeClusters, FakeSession
from tests.notebook.test_status_page import STORE

ACTOR = {"class_name": "Counter", "state": "ALIVE", "rank": -2, "pid": 77, "something new": 1}
ENGINE = {"rank": -2, "state": "busy", "pid": 77, "actor_id": "0x4", "busy_s": 0.0}
SPAN = {"rank": 0, "name": "square", "began_s": 10.0, "ended_s": 11.0, "count": 5, "failed": 0}


@pytest.fixture
def cluster(clusters: FakeClusters) -> FakeCluster:
    clusters.cluster = FakeCluster(2)
    return clusters.cluster


@pytest.fixture
def peopled(cluster: FakeCluster) -> FakeCluster:
    """With an actor, an engine for it, and an object in the store."""
    dead = {**ACTOR, "state": "DEAD"}
    cluster.beyond = {"actors": 1, "extra": 1, "objects": 1}
    cluster.session.rows = {
        "actors": [ACTOR, dead],
        "engines": [{"rank": 0, "state": "idle"}, ENGINE],
        "objects": [
            {"made_by": "small", "size_bytes": 10, "state": "READY"},
            {"made_by": "pending", "state": "PENDING"},
            {"made_by": "load", "size_bytes": 5000, "blocks": ["0x1"], "holders": ["client 1"]},
        ],
        "spans": [SPAN, {**SPAN, "rank": -2, "name": "Counter.add"}],
    }
    cluster.session.store.described = STORE
    return cluster


def test_status_of_a_cluster_with_actors_and_objects(notebook: Notebook, peopled: FakeCluster) -> None:
    notebook.run("%fiber")
    assert "actors            1 alive" in notebook.out
    assert "beside the seats  1 engine: 1 with actors" in notebook.out
    assert "object store      1.2 GB of 3 GB" in notebook.out
    assert notebook.out.splitlines()[-5:-2] == [
        "size     made by  held by",
        "5 kB     load     client 1",
        "pending  pending",
    ]


def test_a_store_that_does_not_answer(
    notebook: Notebook, peopled: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise NotConnected("the store is gone")

    monkeypatch.setattr(peopled.session.store, "describe", refuse)
    notebook.run("%fiber")
    assert "object store      the store is gone" in notebook.out


def test_status_asks_only_for_what_there_is(
    notebook: Notebook, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("asked in vain")

    monkeypatch.setattr(cluster.session, "state", refuse)
    monkeypatch.setattr(cluster.session.store, "describe", refuse)
    notebook.run("%fiber")
    notebook.run("%fiber ps")
    assert "actors" not in notebook.out


def test_the_memory_of_engines_beside_the_seats_counts(peopled: FakeCluster) -> None:
    peopled.session.rows["engines"] = [{**ENGINE, "pid": os.getpid()}, {**ENGINE, "rank": -5}]
    status = msgspec.structs.replace(peopled.status(), pid=os.getpid(), engines=[])
    about = about_of(cast(Cluster, peopled), status)
    assert [row.rank for row in about.beside] == [-2, -5]
    alone = memory_of(status)
    assert about.memory_bytes is not None
    assert alone is not None
    assert about.memory_bytes > 1.5 * alone


def test_ps_shows_actors(notebook: Notebook, peopled: FakeCluster) -> None:
    lines = repr(notebook.run("%fiber ps")).splitlines()
    assert [line.split()[0] for line in lines if line] == ["rank", "0", "1", "extra", "actor", "Counter"]
    assert len(repr(notebook.run("%fiber ps 0")).splitlines()) == 2


def test_timeline(notebook: Notebook, peopled: FakeCluster) -> None:
    page = notebook.run("%fiber timeline")
    assert "3 engines, 1.0 s, 10 calls" in notebook.out
    assert page._repr_html_().startswith("<figure")


def test_a_timeline_with_waits(notebook: Notebook, peopled: FakeCluster, tmp_path: Path) -> None:
    wait = {"kind": "blocked", "rank": 0, "name": "square", "task_id": "0x1", "began_s": 10.0, "ended_s": 10.5}
    peopled.session.rows["waits"] = [wait]
    page = notebook.run("%fiber timeline")
    assert "square: 5 calls, 1.0 s, blocked for 0.5 s" in repr(page)
    assert "stroke-dasharray" in page._repr_html_()
    notebook.run(f"%fiber timeline {tmp_path / 'trace.json'}")
    events = json.loads((tmp_path / "trace.json").read_text())
    assert [event["cat"] for event in events if event["ph"] == "X"] == ["task", "task", "blocked"]
    assert notebook.out.splitlines()[-1].startswith("2 spans are in")


def test_the_last_part_of_a_timeline(notebook: Notebook, peopled: FakeCluster) -> None:
    peopled.session.rows["spans"].append({**SPAN, "began_s": 500.0, "ended_s": 504.0, "name": "later"})
    assert repr(notebook.run("%fiber timeline --last 2")).splitlines()[0].startswith("2 engines, 2.0 s, 5 calls")
    with pytest.raises(UsageError, match="--last is for the picture"):
        notebook.run("%fiber timeline trace.json --last 2")


def test_timeline_of_a_cluster_that_has_run_nothing(notebook: Notebook, cluster: FakeCluster) -> None:
    assert repr(notebook.run("%fiber timeline")) == "nothing has been run yet"


def test_timeline_as_a_trace(notebook: Notebook, peopled: FakeCluster, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    notebook.run(f"%fiber timeline {path}")
    assert notebook.out.startswith(f"2 spans are in {path}")
    assert {event["name"] for event in json.loads(path.read_text()) if event["ph"] == "X"} == {"square", "Counter.add"}
    with pytest.raises(ConfigError, match="cannot write"):
        notebook.run(f"%fiber timeline {tmp_path}")


@pytest.mark.parametrize("written", ["extra 2", "extra-2", "extra2"])
def test_log_of_an_engine_beside_the_seats(
    written: str, notebook: Notebook, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.directory = tmp_path  # type: ignore[attr-defined]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "extra-2.log").write_text("a line\n")
    notebook.run(f"%fiber log {written}")
    assert notebook.out == "[extra 2] a line\n"
    with pytest.raises(ConfigError, match="'0 1' names no ranks"):
        notebook.run("%fiber log 0 1")


def test_rows_bear_fields_that_are_new_or_missing() -> None:
    session = FakeSession()
    session.rows["actors"] = [ACTOR]
    assert ask(session, "actors", ActorRow) == (
        [ActorRow(class_name="Counter", state="ALIVE", pid=77)],
        1,
    )
    session.rows["engines"] = [{"rank": 1}]
    assert ask(session, "engines", EngineRow) == ([EngineRow(rank=1)], 1)
    session.rows["engines"] = [{}]
    with pytest.raises(msgspec.ValidationError):
        ask(session, "engines", EngineRow)
