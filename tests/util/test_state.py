from __future__ import annotations

from typing import Any

import pytest

from fibernb.client.session import Session
from fibernb.errors import ConfigError
from fibernb.util import list_named_actors, state

ROWS: dict[str, list[dict[str, Any]]] = {
    "tasks": [
        {"task_id": "0x1", "name": "f", "state": "RUNNING", "actor_id": "", "node": "n"},
        {"task_id": "0x2", "name": "f", "state": "FINISHED"},
        {"task_id": "0x3", "name": "A.m", "state": "FAILED", "actor_id": "0x9"},
    ],
    "actors": [
        {"actor_id": "0x9", "class_name": "A", "name": "n", "namespace": "", "state": "ALIVE", "restarts": 1},
        {"actor_id": "0x8", "class_name": "A", "name": "m", "namespace": "s", "state": "ALIVE", "restarts": 0},
        {"actor_id": "0x7", "class_name": "A", "name": "", "namespace": "", "state": "ALIVE", "restarts": 0},
    ],
    "objects": [{"object_id": "0x4", "made_by": "f", "state": "READY"}],
    "engines": [
        {"rank": 0, "engine": 5, "state": "idle", "actor_id": ""},
        {"rank": -2, "engine": 7, "state": "busy", "actor_id": "0x9"},
        {"rank": -3, "engine": 8, "state": "idle", "actor_id": ""},
    ],
    "nodes": [{"node": "n", "alive": True}],
    "groups": [{"placement_group_id": "0x5", "state": "CREATED"}],
}
ROWS["all actors"] = [
    *ROWS["actors"],
    {"actor_id": "0x6", "class_name": "A", "name": "dead", "namespace": "", "state": "DEAD", "restarts": 0},
]


@pytest.fixture(autouse=True)
def _told(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def state(
        _: Session, kind: str, limit: int = 10_000, where: dict[str, str] | None = None
    ) -> tuple[list[dict[str, Any]], int]:
        fits = [
            row for row in ROWS[kind] if all(str(row.get(key, "")) == value for key, value in (where or {}).items())
        ]
        return fits[:limit], len(fits)

    monkeypatch.setattr(Session, "state", state)


def test_rows_have_attributes_and_names_of_ray() -> None:
    (row, *_) = state.list_tasks()
    assert row.state == row["state"] == "RUNNING"
    assert row.func_or_class_name == row["func_or_class_name"] == "f"
    assert row.node_id == "n"
    with pytest.raises(AttributeError, match="it has task_id"):
        _ = row.nothing
    with pytest.raises(KeyError):
        _ = row["nothing"]


def test_filters() -> None:
    assert [row.task_id for row in state.list_tasks(filters=[("func_or_class_name", "=", "f")])] == ["0x1", "0x2"]
    assert [row.task_id for row in state.list_tasks(filters=[("state", "!=", "FAILED")], limit=1)] == ["0x1"]
    assert state.list_tasks(filters=[("state", "=", "FAILED"), ("name", "!=", "A.m")], detail=True) == []
    for wrong in (("state", ">", 1), ("state", "="), "state"):
        with pytest.raises(ConfigError, match="a filter cannot be"):
            state.list_tasks(filters=[wrong])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match=r"tasks have no 'stat' to filter by: did you mean 'state'\?"):
        state.list_tasks(filters=[("stat", "=", "RUNNING")])
    with pytest.raises(ConfigError, match="there are alive, node"):
        state.list_nodes(filters=[("x", "=", "y")])
    with pytest.raises(TypeError, match="no argument 'filter'"):
        state.list_tasks(filter=[])


def test_kinds() -> None:
    assert state.list_engines()[0].engine == 5
    assert state.list_workers()[0].worker_id == 5
    assert state.list_nodes()[0].alive
    assert state.list_objects()[0].made_by == "f"
    assert state.list_placement_groups()[0].state == "CREATED"
    assert len(state.list_actors()) == 4


def test_one_by_its_id() -> None:
    task, actor, engine = state.get_task("0x2"), state.get_actor("0x9"), state.get_engine(5)
    assert task is not None
    assert task.state == "FINISHED"
    assert actor is not None
    assert actor.num_restarts == 1
    assert engine is not None
    assert engine.rank == 0
    assert state.get_worker(6) is None
    assert state.get_node("n") is not None
    assert state.get_placement_group("0x5") is not None
    assert len(state.get_objects("0x4")) == 1


def test_summaries() -> None:
    tasks = state.summarize_tasks()["cluster"]
    assert tasks["summary"]["f"]["state_counts"] == {"RUNNING": 1, "FINISHED": 1}
    assert (tasks["total_tasks"], tasks["total_actor_tasks"]) == (2, 1)
    actors = state.summarize_actors()["cluster"]
    assert actors["summary"]["A"] == {"class_name": "A", "state_counts": {"ALIVE": 3, "DEAD": 1}}
    assert state.summarize_objects()["cluster"]["total_objects"] == 1
    engines = state.summarize_engines()["cluster"]
    assert {name: about["state_counts"] for name, about in engines["summary"].items()} == {
        "seats": {"idle": 1},
        "actors": {"busy": 1},
        "beside the seats": {"idle": 1},
    }
    assert engines["total_engines"] == 3


def test_summaries_tell_the_most_frequent_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = [
        {"task_id": hex(number), "name": "f", "state": "FAILED", "error": f"ValueError: {min(number, 6)}"}
        for number in range(10)
    ]
    monkeypatch.setitem(ROWS, "tasks", [*failed, {"task_id": "0x99", "name": "g", "state": "FINISHED", "error": ""}])
    found = state.summarize_tasks()["cluster"]["summary"]
    assert found["f"]["errors"] == {"ValueError: 6": 4, **{f"ValueError: {number}": 1 for number in range(4)}}
    assert "errors" not in found["g"]
    assert state.list_tasks()[1].error_message == "ValueError: 1"


def test_named_actors() -> None:
    assert list_named_actors() == ["n"]
    assert list_named_actors(all_namespaces=True) == [
        {"namespace": "", "name": "n"},
        {"namespace": "s", "name": "m"},
    ]
