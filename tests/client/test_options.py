from __future__ import annotations

import pytest

import fibernb as fnb
from fibernb.client import options
from fibernb.client.session import Session
from fibernb.core import messages as m
from fibernb.errors import ConfigError, FibernbError
from fibernb.model import Resources, TaskOptions
from tests.client.fake_hub import FakeHub


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
    ],
)
def test_values_that_cannot_be(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"cannot (be|hold)"):
        options.parse(given)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(ConfigError, match="num_cpus"):
        options.parse({"num_cpu": 1})
    with pytest.raises(ConfigError, match="The options are"):
        options.parse({"zzz": 1})


@pytest.mark.parametrize(
    "given",
    [
        {"runtime_env": {}},
        {"scheduling_strategy": "SPREAD"},
        {"max_restarts": 1},
        {"num_returns": "streaming"},
        {"retry_exceptions": [ValueError]},
    ],
)
def test_what_is_not_there_yet_says_so(given: dict[str, object]) -> None:
    with pytest.raises(FibernbError, match="this version"):
        options.parse(given)


def test_actors_are_not_there_yet() -> None:
    with pytest.raises(FibernbError, match="actors"):
        fnb.remote(dict)

    class Holder:
        method = fnb.remote(lambda self: None)

    with pytest.raises(FibernbError, match="actors"):
        _ = Holder().method


def test_remote_refuses_what_is_no_function() -> None:
    with pytest.raises(TypeError):
        fnb.remote(5)
    with pytest.raises(TypeError):
        fnb.remote(num_cpus=1)(5)
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
