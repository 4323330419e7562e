from __future__ import annotations

from typing import Any

import cloudpickle
import pytest

import fibernb as fnb
from fibernb.client.session import Session
from fibernb.core import messages as m
from fibernb.engine import context
from fibernb.errors import ConfigError
from fibernb.model import Resources
from fibernb.util import (
    get_current_placement_group,
    get_placement_group,
    placement_group_table,
    remove_placement_group,
)
from fibernb.util import placement_group as make
from fibernb.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.client.fake_hub import FakeCells, FakeHub


def test_a_group(session: Session, hub: FakeHub) -> None:
    group = make(
        [{"CPU": 1, "licence": 2}, {"GPU": 0.5, "memory": 100}], strategy="SPREAD", name="g", lifetime="detached"
    )
    assert fnb.get(group.ready()) is None
    assert group.wait(1)
    (created,) = hub.of(m.CreateGroup)
    assert (created.strategy, created.name, created.detached) == ("SPREAD", "g", True)
    assert created.bundles == [
        Resources(custom={"licence": 2000}),
        Resources(milli_cpus=0, milli_gpus=500, memory_bytes=100),
    ]
    assert (group.bundle_count, group.bundle_specs[1], group.is_empty) == (2, {"GPU": 0.5, "memory": 100}, False)
    again = cloudpickle.loads(cloudpickle.dumps(group))
    assert again == group
    assert hash(again) == hash(group)
    assert group.id == group.id.hex() == f"{created.group:#x}"
    assert "SPREAD" in repr(group)


def test_tasks_and_actors_in_it(session: Session, hub: FakeHub) -> None:
    group = make([{"CPU": 1}])
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    fnb.get(fnb.remote(abs).options(scheduling_strategy=strategy).remote(-1))
    fnb.remote(scheduling_strategy=strategy)(dict).remote()
    session.settle()
    (submitted,), (created,) = hub.of(m.Submit), hub.of(m.CreateActor)
    assert (submitted.options.placement, submitted.options.bundle) == (group.object_id, 0)
    assert created.options.placement == group.object_id


def test_a_group_stays_until_it_is_removed(session: Session, hub: FakeHub) -> None:
    group_id = make([{"CPU": 1}]).object_id
    group = make([{"CPU": 1}])
    remove_placement_group(group)
    session.settle()
    assert [message.group for message in hub.of(m.RemoveGroup)] == [group.object_id]
    assert group_id not in [id_ for message in hub.of(m.Release) for id_ in message.objects]
    with pytest.raises(TypeError, match="PlacementGroup"):
        remove_placement_group("g")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bundles": []}, "bundles cannot be"),
        ({"bundles": {"CPU": 1}}, "bundles cannot be"),
        ({"bundles": [{}]}, r"bundles\[0\].*reserves nothing"),
        ({"bundles": [{"CPU": 0}]}, "reserves nothing"),
        ({"bundles": [{"CPU": -1}]}, r"bundles\[0\]\['CPU'\]"),
        ({"bundles": [{"CPU": 1}], "strategy": "NEAR"}, "STRICT_PACK"),
        ({"bundles": [{"CPU": 1}], "lifetime": "long"}, "detached"),
        ({"bundles": [{"CPU": 1}], "name": 5}, "name cannot be"),
    ],
)
def test_what_cannot_be_a_group(session: Session, given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**given)


def test_groups_are_found(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "placement_group_id": "0x99",
        "name": "g",
        "strategy": "PACK",
        "state": "CREATED",
        "bundles": [{"node": "n", "CPU": 1.0}],
    }
    rows = [row]
    asked: list[dict[str, str]] = []

    def state(_: Session, kind: str, limit: int, where: dict[str, str]) -> tuple[list[dict[str, Any]], int]:
        asked.append(where)
        return rows, len(rows)

    monkeypatch.setattr(Session, "state", state)
    group = get_placement_group("g")
    assert (group.object_id, group.bundle_specs, group.name) == (0x99, [{"CPU": 1.0}], "g")
    table = placement_group_table(group)
    assert (table["state"], table["bundles"], table["bundles_to_node_id"]) == ("CREATED", {0: {"CPU": 1.0}}, {0: "n"})
    assert placement_group_table() == {"0x99": table}
    assert asked == [{"name": "g"}, {"placement_group_id": "0x99"}, {}]
    assert get_current_placement_group() is None
    engine = context.EngineContext(directory="/x", cells=FakeCells(0), current_task=lambda: 1)
    engine.placement = 0x99
    context.enter(engine)
    try:
        assert get_current_placement_group() == group
    finally:
        context.enter(None)
    rows.clear()
    with pytest.raises(ConfigError, match="no placement group named"):
        get_placement_group("g")
    with pytest.raises(ConfigError, match="takes the name"):
        get_placement_group("")
    assert placement_group_table(group) == {}
