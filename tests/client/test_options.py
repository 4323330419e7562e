from __future__ import annotations

from typing import Any

import pytest

import fibernb as fnb
from fibernb import serialize
from fibernb.client import options
from fibernb.client.session import Session
from fibernb.client.strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy
from fibernb.core import messages as m
from fibernb.errors import ConfigError
from fibernb.model import STREAMING, Resources, TaskOptions
from tests.client.fake_hub import FakeHub


class Group:
    object_id = 77
    bundle_count = 2


def test_names_of_ray() -> None:
    given = {
        "num_cpus": 0.5,
        "num_gpus": 1,
        "memory": 1e6,
        "resources": {"licence": 2},
        "num_returns": 2,
        "max_retries": -1,
        "retry_exceptions": True,
        "name": "work",
    }
    assert options.parse(given) == TaskOptions(
        name="work",
        resources=Resources(milli_cpus=500, milli_gpus=1000, memory_bytes=1_000_000, custom={"licence": 2000}),
        num_returns=2,
        max_retries=options.UNLIMITED_RETRIES,
        retry_exceptions=True,
    )


def test_options_add_up() -> None:
    base = options.parse({"num_cpus": 2, "max_retries": 5})
    assert options.parse({"num_gpus": 1}, base).resources == Resources(milli_cpus=2000, milli_gpus=1000)
    assert options.parse({"num_gpus": 1}, base).max_retries == 5


@pytest.mark.parametrize(
    "given",
    [
        {"num_cpus": -1},
        {"num_cpus": float("nan")},
        {"num_cpus": float("inf")},
        {"num_cpus": "2"},
        {"num_gpus": True},
        {"memory": -5},
        {"resources": {"x": -1}},
        {"resources": 5},
        {"resources": {"CPU": 1}},
        {"num_returns": -1},
        {"num_returns": 10**9},
        {"num_returns": 1.5},
        {"max_retries": -2},
        {"max_retries": True},
        {"retry_exceptions": 1},
        {"name": 5},
        {"num_returns": "many"},
        {"retry_exceptions": [5]},
        {"max_calls": -1},
        {"scheduling_strategy": "NEAR"},
        {"scheduling_strategy": NodeAffinitySchedulingStrategy("", soft=False)},
        {"placement_group": 5},
        {"placement_group": Group(), "placement_group_bundle_index": 2},
        {"runtime_env": 5},
    ],
)
def test_values_that_cannot_be(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"cannot (be|hold)"):
        options.parse(given)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(ConfigError, match="num_cpus"):
        options.parse({"num_cpu": 1})
    with pytest.raises(ConfigError, match=r"remote functions have no option 'max_restarts'.*max_retries"):
        fnb.remote(max_restarts=1)(len)
    with pytest.raises(ConfigError, match="The options are"):
        options.parse({"zzz": 1})


def test_streams_and_retries() -> None:
    parsed = options.parse({"num_returns": "streaming", "retry_exceptions": [ValueError, KeyError], "max_calls": 3})
    assert parsed.num_returns == STREAMING
    assert isinstance(parsed.retry_exceptions, bytes)
    assert serialize.loads(parsed.retry_exceptions) == (ValueError, KeyError)
    assert parsed.max_calls == 3
    assert options.parse({"num_returns": "dynamic"}).num_returns == 1
    assert options.parse({"_generator_backpressure_num_objects": 5}).backpressure == 5
    assert options.parse({"_generator_backpressure_num_objects": -1}).backpressure == 0


def test_places() -> None:
    assert options.parse({"scheduling_strategy": "SPREAD"}).spread
    assert options.parse({"scheduling_strategy": "DEFAULT"}, options.parse({"scheduling_strategy": "SPREAD"})) == (
        options.parse({})
    )
    affine = options.parse({"scheduling_strategy": NodeAffinitySchedulingStrategy("here", soft=True)})
    assert (affine.node, affine.soft) == ("here", True)
    grouped = options.parse({"placement_group": Group(), "placement_group_bundle_index": 1})
    assert (grouped.placement, grouped.bundle) == (77, 1)
    strategy = PlacementGroupSchedulingStrategy(Group(), 0)
    assert options.parse({"scheduling_strategy": strategy}).bundle == 0
    assert options.parse({"placement_group": None}, grouped).placement == 0
    assert not strategy.fields()["captures"]
    captured = PlacementGroupSchedulingStrategy(Group(), placement_group_capture_child_tasks=True)
    assert options.parse({"scheduling_strategy": captured}).captures
    assert options.parse({"placement_group": Group(), "placement_group_capture_child_tasks": True}).captures


def test_kinds_of_accelerators_are_custom_resources() -> None:
    parsed = options.parse({"accelerator_type": "A100", "resources": {"x": 1}})
    assert parsed.resources.custom == {"x": 1000, "accelerator_type:A100": 1}


def test_what_changes_nothing() -> None:
    assert options.parse({"enable_task_events": False}) == options.parse({})


def test_a_remote_function_within_a_class() -> None:
    class Holder:
        method = fnb.remote(lambda self: None)

    with pytest.raises(TypeError, match="make the whole class remote"):
        _ = Holder().method


def test_remote_refuses_what_is_no_function() -> None:
    number: Any = 5
    with pytest.raises(TypeError):
        fnb.remote(number)
    with pytest.raises(TypeError):
        fnb.remote(num_cpus=1)(number)
    with pytest.raises(TypeError, match="remote already"):
        fnb.remote(fnb.remote(len))


def test_a_remote_function_is_not_called_directly() -> None:
    @fnb.remote
    def work() -> None:
        """What it does."""

    with pytest.raises(TypeError, match=r"work\.remote"):
        work()
    assert work.__doc__ == "What it does."
    assert "work" in repr(work)


def test_options_travel(session: Session, hub: FakeHub) -> None:
    work = fnb.remote(num_cpus=2)(abs)
    assert fnb.get([work.remote(-1), work.options(name="other", max_retries=0).remote(-2)]) == [1, 2]
    first, second = (message.options for message in hub.of(m.Submit))
    assert (first.name, first.resources.milli_cpus, first.max_retries) == ("abs", 2000, 3)
    assert (second.name, second.resources.milli_cpus, second.max_retries) == ("other", 2000, 0)
