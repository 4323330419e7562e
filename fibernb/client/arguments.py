"""The arguments of ``init`` that have Ray's names, as keys of the configuration."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from fibernb.client import options
from fibernb.config import KEYS
from fibernb.errors import ConfigError

IGNORED: Final = (  # Ray's arguments that change nothing here
    "ignore_reinit_error",
    "include_dashboard",
    "dashboard_host",
    "dashboard_port",
    "log_to_driver",
    "logging_level",
    "logging_format",
    "logging_config",
    "configure_logging",
    "allow_multiple",
    "_system_config",
    "_metrics_export_port",
    "_node_ip_address",
    "_tracing_startup_hook",
    "_driver_object_store_memory",
)
RENAMED: Final = {  # Ray's name to ours
    "num_cpus": "workers",
    "object_store_memory": "store_bytes",
    "_plasma_directory": "store_dir",
    "_object_spilling_directory": "spill_dir",
    "_temp_dir": "runtime_dir",
}
OWN: Final = ("workers", "backend", "name", "address", "namespace", "runtime_env")  # that `fibernb.init` reads itself
AMOUNTS: Final = {"num_gpus": "gpus", "_memory": "memory"}  # go into ``resources``
MISSING: Final = {
    "local_mode": "call the plain functions to debug them in this process",
    "labels": "name a custom resource instead: resources={'label': 1}",
    "job_config": "give namespace= and runtime_env= to init",
    "enable_resource_isolation": "limit the cluster from outside, with a cgroup or a container",
    "_redis_password": "clusters have keys of their own",
    "_redis_username": "clusters have keys of their own",
}


def translated(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of the configuration with their values.

    Raises `ConfigError` for an argument that FiberNB cannot heed.
    """
    made: dict[str, Any] = {}
    resources = options.custom("resources", given["resources"]) if "resources" in given else {}
    amounts: dict[str, Any] = {name: given["resources"][name] for name in resources}
    for name, value in given.items():
        if name in MISSING and value:
            raise ConfigError(f"init has no {name} in FiberNB: {MISSING[name]}")
        if value is None or name in IGNORED or name in MISSING or name == "resources":
            continue
        if name in AMOUNTS:
            amounts[AMOUNTS[name]] = options.amount(name, value)
        else:
            made[_key(name)] = value
    return made | ({"resources": amounts} if amounts else {})


def _key(name: str) -> str:
    key = RENAMED.get(name, name)
    if key in KEYS:
        return key
    close = difflib.get_close_matches(name, [*KEYS, *RENAMED, *AMOUNTS, *IGNORED, *MISSING, *OWN], n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"It has: {', '.join(dict.fromkeys([*OWN, *KEYS]))}."
    raise ConfigError(f"init has no argument {name!r}. {hint}")
