from __future__ import annotations

from typing import Any

import pytest

import fibernb as fnb
from fibernb.client.actor_options import ActorSettings, group_of, parse_actor, parse_method
from fibernb.client.options import UNLIMITED_RETRIES
from fibernb.errors import ConfigError
from fibernb.model import ActorOptions, Resources


def test_names_of_ray() -> None:
    given = {
        "num_cpus": 1,
        "num_gpus": 0.5,
        "name": "n",
        "namespace": "s",
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": -1,
        "max_task_retries": -1,
        "max_concurrency": 4,
        "concurrency_groups": {"io": 2},
        "max_pending_calls": 7,
    }
    assert parse_actor(given) == ActorSettings(
        options=ActorOptions(
            name="n",
            detached=True,
            max_restarts=-1,
            groups={"io": 2},
            resources=Resources(milli_cpus=1000, milli_gpus=500),
        ),
        concurrency=4,
        namespace="s",
        get_if_exists=True,
        max_task_retries=UNLIMITED_RETRIES,
        max_pending_calls=7,
    )


def test_an_actor_asks_for_no_cpu_by_itself() -> None:
    assert parse_actor({}).options.resources == Resources(milli_cpus=0)


def test_options_add_up() -> None:
    base = parse_actor({"name": "n", "max_restarts": 2, "max_concurrency": 3})
    changed = parse_actor({"num_cpus": 2, "max_pending_calls": -1, "lifetime": None, "max_concurrency": None}, base)
    assert (changed.options.name, changed.options.max_restarts, changed.concurrency) == ("n", 2, None)
    assert changed.options.resources.milli_cpus == 2000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_restart": 1}, "Did you mean 'max_restarts'"),
        ({"num_returns": 2}, "actors have no option 'num_returns'"),
        ({"max_restarts": -2}, "max_restarts cannot be"),
        ({"max_concurrency": 0}, "max_concurrency cannot be"),
        ({"concurrency_groups": {"io": 0}}, "io"),
        ({"concurrency_groups": 5}, "concurrency_groups cannot be"),
        ({"lifetime": "forever"}, "lifetime cannot be"),
        ({"get_if_exists": 1, "name": "n"}, "True or False"),
        ({"get_if_exists": True}, "needs a name"),
        ({"replace": True}, "needs a name"),
        ({"replace": True, "get_if_exists": True, "name": "n"}, "choose one"),
        ({"name": ""}, "not empty"),
        ({"namespace": ""}, "not empty"),
        ({"max_pending_calls": 0}, "max_pending_calls cannot be"),
    ],
)
def test_what_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_actor(given)


def test_options_of_methods() -> None:
    given = {"num_returns": 2, "concurrency_group": "io", "max_task_retries": 3, "retry_exceptions": True}
    parsed = parse_method(given)
    assert (parsed.num_returns, parsed.max_retries, parsed.retry_exceptions) == (2, 3, True)
    assert group_of(given) == "io"
    assert group_of({}, "other") == "other"
    with pytest.raises(ConfigError, match="methods of actors have no option 'num_cpus'"):
        parse_method({"num_cpus": 1})


def test_method_is_checked_where_it_stands() -> None:
    with pytest.raises(ConfigError, match="num_returns"):
        fnb.method(num_returns=-1)
    with pytest.raises(ConfigError, match="concurrency_group"):
        fnb.method(concurrency_group=5)
    with pytest.raises(TypeError, match="by name"):
        fnb.method(len)
    with pytest.raises(TypeError, match="by name"):
        fnb.method()
