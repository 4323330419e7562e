from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fibernb as fnb
from fibernb.client import job
from fibernb.client.job import Job
from fibernb.client.session import Session
from fibernb.engine import context
from fibernb.errors import ClusterError
from fibernb.model import Resources
from tests.client.fake_hub import FakeCells, FakeHub


@pytest.fixture
def engine() -> Iterator[context.EngineContext]:
    engine = context.EngineContext(directory="/x", cells=FakeCells(0), current_task=lambda: 7 << 40 | 5)
    context.enter(engine)
    yield engine
    context.enter(None)


def test_in_a_client(session: Session) -> None:
    here = fnb.get_runtime_context()
    assert here.get_task_id() is here.get_task_name() is here.get_actor_id() is here.get_actor_name() is None
    assert here.get_placement_group_id() is None
    assert here.get_job_id() == f"{session.client:06x}"
    assert here.get_assigned_resources() == {}
    assert here.get_accelerator_ids() == {"GPU": []}
    assert here.runtime_env == {}
    assert here.get_runtime_env_string() == "{}"
    assert here.namespace == ""
    assert here.gcs_address == "fake"
    assert not here.was_current_actor_reconstructed
    assert not here.should_capture_child_tasks_in_placement_group
    assert set(here.get()) == {"job_id", "node_id", "namespace"}
    assert here.get_worker_id()
    with pytest.raises(ClusterError, match="current_actor"):
        _ = here.current_actor


def test_in_an_actor(session: Session, hub: FakeHub, engine: context.EngineContext) -> None:
    @fnb.remote
    class Thing:
        def method(self) -> int:
            return 1

    thing: Any = Thing  # a type checker takes no notice of what decorates a class
    handle = thing.options(name="n").remote()
    engine.actor, engine.actor_about = handle._actor_ref.id, hub.names["n"][1]
    engine.actor_name, engine.namespace, engine.was_restarted = "n", "space", True
    engine.name_of_calls, engine.placement, engine.gpus = "Thing.method", 0x99, (1, 3)
    engine.resources, engine.node = Resources(milli_cpus=500, custom={"licence": 2000}), "host"
    engine.environment = '{"env_vars":{"A":"1"}}'
    here = fnb.get_runtime_context()
    assert here.get() == {
        "job_id": "000007",
        "node_id": "host",
        "namespace": "space",
        "task_id": "0x70000000005",
        "actor_id": f"{engine.actor:#x}",
    }
    assert (here.get_task_name(), here.get_task_function_name(), here.get_actor_name()) == (
        "Thing.method", "Thing.method", "n",
    )  # fmt: skip
    assert here.current_actor == handle
    assert here.was_current_actor_reconstructed
    assert here.get_placement_group_id() == "0x99"
    assert here.get_assigned_resources() == {"CPU": 0.5, "licence": 2.0}
    assert fnb.get_gpu_ids() == [1, 3]
    assert here.get_resource_ids() == {"GPU": ["1", "3"]}
    assert here.runtime_env == {"env_vars": {"A": "1"}}


def test_what_a_job_has_holds_for_its_tasks(session: Session, engine: context.EngineContext) -> None:
    job.use(Job(namespace="of the job", environment='{"pip":["x"]}'))
    try:
        assert job.current() == Job(namespace="of the job", environment='{"pip":["x"]}')
        engine.namespace, engine.environment = "of the actor", '{"env_vars":{"A":"1"}}'
        assert job.current() == Job(namespace="of the actor", environment='{"env_vars":{"A":"1"}}')
    finally:
        job.use(Job())
