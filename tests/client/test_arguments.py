from __future__ import annotations

import pytest

from fibernb.client.arguments import translated
from fibernb.errors import ConfigError


def test_names_of_ray() -> None:
    given = {
        "num_cpus": 4,
        "num_gpus": 2,
        "resources": {"licence": 3},
        "object_store_memory": 10**9,
        "_memory": 10**8,
        "_temp_dir": "/tmp/x",
        "ignore_reinit_error": True,
        "local_mode": False,
        "lease_s": 5,
        "logging_level": None,
    }
    assert translated(given) == {
        "workers": 4,
        "store_bytes": 10**9,
        "runtime_dir": "/tmp/x",
        "lease_s": 5,
        "resources": {"licence": 3, "gpus": 2, "memory": 10**8},
    }
    assert translated({}) == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"local_mode": True}, "local_mode"),
        ({"labels": {"a": "b"}}, "custom resource"),
        ({"num_gpus": -1}, "num_gpus"),
        ({"resources": {"CPU": 1}}, "num_cpus"),
        ({"resources": 5}, "resources"),
        ({"num_cpu": 8}, r"init has no argument 'num_cpu'. Did you mean 'num_cpus'\?"),
        ({"num_gpu": 1}, "'num_gpus'"),
        ({"lease": 5}, "'lease_s'"),
        ({"dashboard": True}, "'dashboard_"),
        ({"name_space": "x"}, "'namespace'"),
        ({"xyzzy": 1}, "It has: workers, backend, name, .*runtime_env, .*lease_s"),
    ],
)
def test_what_cannot_be(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translated(given)
