"""How a process comes to its cluster, with a fake one to come to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fibernb as fnb
from fibernb.client import api, current, job
from fibernb.client.cluster import Cluster
from fibernb.client.job import Job
from fibernb.client.session import Session
from fibernb.config import Config
from fibernb.core import messages as m
from fibernb.engine import context
from fibernb.errors import BackendError, ConfigError
from fibernb.hub.connection import Connection
from tests.client.fake_hub import FakeCells, FakeConnector, FakeHub


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("as_completed", ": it is fibernb.util.as_completed"),
        ("tune", ": Ray's libraries are not part"),
        ("nowhere", "$"),
    ],
)
def test_what_is_looked_for_in_the_wrong_place(name: str, told: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'fibernb' has no attribute '{name}'{told}"):
        getattr(fnb, name)


@pytest.fixture
def launched(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Config]]:
    """The settings that clusters were started or attached to with; all of them are the fake one."""
    seen: list[Config] = []

    def open_(connection: Connection, settings: Config, owned: bool) -> Cluster:
        seen.append(settings)
        return Cluster(Session(FakeConnector(hub)), None, owned)  # type: ignore[arg-type]

    def read(target: str | Path, settings: Config) -> Connection:
        return Connection(name="fake", address="", key="", pid=0, directory=str(target))

    monkeypatch.setattr(api, "launch", lambda settings: read("/x", settings))
    monkeypatch.setattr(api, "read_connection", read)
    monkeypatch.setattr(api, "list_connections", lambda settings: [read("/the/only/one", settings)])
    monkeypatch.setattr(api, "_open", open_)
    nowhere = SimpleNamespace(current=lambda: None)  # the fake hub plays engines in this process, beside the tests
    monkeypatch.setattr(api, "context", nowhere)
    monkeypatch.setattr(job, "context", nowhere)
    yield seen
    fnb.shutdown()


def test_names_of_ray(launched: list[Config], hub: FakeHub) -> None:
    cluster = fnb.init(num_cpus=3, num_gpus=1, resources={"licence": 2}, object_store_memory=10**8, log_to_driver=False)
    assert fnb.init() is cluster
    assert fnb.init(ignore_reinit_error=True, num_cpus=4) is cluster
    cluster.session.settle()
    assert [message.seats for message in hub.of(m.Scale)] == [3, 4]
    (settings,) = launched
    assert settings.resources == {"licence": 2, "gpus": 1}
    assert settings.store_bytes == 10**8


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"num_cpu": 1}, ConfigError, "num_cpu"),
        ({"local_mode": True}, ConfigError, "local_mode"),
        ({"address": "ray://host:10001"}, ConfigError, "fibernb list"),
        ({"address": "10.0.0.1:6379"}, ConfigError, "fibernb list"),
        ({"backend": "moon"}, BackendError, "moon"),
        ({"namespace": ""}, ConfigError, "namespace"),
        ({"runtime_env": {"conda": "x"}}, ConfigError, "conda"),
        ({"runtime_env": 5}, ConfigError, "dict"),
    ],
)
def test_what_cannot_be(launched: list[Config], given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fnb.init(**given)
    assert not launched, "nothing has been started"


def test_addresses(launched: list[Config]) -> None:
    cluster = fnb.init("auto")
    assert not cluster.owned
    assert fnb.init(address="fake") is cluster
    with pytest.raises(ConfigError, match="uses cluster fake"):
        fnb.init(address="other")
    fnb.shutdown()
    assert not fnb.is_initialized()
    assert fnb.init(address="local").owned


def test_what_holds_for_the_job(launched: list[Config], hub: FakeHub) -> None:
    fnb.init(namespace="space", runtime_env={"env_vars": {"A": "1"}})
    work = fnb.remote(abs)
    assert fnb.get(work.remote(-1)) == 1
    fnb.init(runtime_env={"env_vars": {"A": "2"}})
    assert fnb.get(work.options(runtime_env={"env_vars": {"B": "3"}}).remote(-1)) == 1
    assert fnb.get(work.remote(-1)) == 1
    assert [message.options.environment for message in hub.of(m.Submit)] == [
        '{"env_vars":{"A":"1"}}',
        '{"env_vars":{"A":"2","B":"3"}}',
        '{"env_vars":{"A":"2"}}',
    ]
    assert fnb.get_runtime_context().namespace == "space"
    fnb.remote(dict).remote()
    fnb.remote(dict).options(namespace="own").remote()
    current.require().settle()
    assert [message.options.namespace for message in hub.of(m.CreateActor)] == ["space", "own"]
    assert {message.keys for message in hub.of(m.Remember)} >= {("job",)}, "engines to come are told"
    assert hub.of(m.SubmitPinned), "and those that there are"
    fnb.shutdown()
    assert job.current() == Job()


def test_init_on_an_engine_gives_its_cluster(launched: list[Config], monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fnb.init()
    engine = context.EngineContext(directory="/x", cells=FakeCells(0), current_task=lambda: 1)
    context.enter(engine)
    try:
        assert fnb.init(num_cpus=8) is cluster
    finally:
        context.enter(None)


def test_values_and_tasks(launched: list[Config], hub: FakeHub) -> None:
    fnb.init()
    with pytest.raises(TypeError, match="reference already"):
        fnb.put(fnb.put(1))
    with pytest.raises(TypeError, match="cancel takes an ObjectRef"):
        fnb.cancel("x")  # type: ignore[arg-type]
