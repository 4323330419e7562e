"""What a process or a pool's worker asks the cluster for: what `fibernb.meta` says, and what is configured for all."""

from __future__ import annotations

import multiprocessing.process
from collections.abc import Mapping
from typing import Any, Final

from fibernb.meta import needs_of
from fibernb.model import Resources

CONFIG_KEY: Final = "fiber"  # of a process's ``_config``, which its children inherit
MIB: Final = 2**20  # bytes
NOTHING: Final = Resources(milli_cpus=0)


def resources_of(*targets: object) -> Resources:
    """What the cluster has to have free for something that runs in a process of its own; nothing, unless it says so.

    Parameters
    ----------
    targets : the function that is to run, its process object, ...; what an earlier one says counts.
    """
    needs = configured_needs()
    for target in reversed(targets):
        needs |= needs_of(target)
    return Resources(
        milli_cpus=round(needs.get("cpu", 0) * 1000),
        milli_gpus=round(needs.get("gpu", 0) * 1000),
        memory_bytes=round(needs.get("mem", 0) * MIB),
    )


def configured_needs() -> dict[str, float]:
    """What every process needs by Fiber's ``cpu_per_job`` and ``mem_per_job``, here and in the processes above."""
    configured = configuration()
    named = {"cpu": configured.get("cpu_per_job"), "mem": configured.get("mem_per_job")}
    return {name: value for name, value in named.items() if value is not None}


def configuration() -> Mapping[str, Any]:
    """What `fibernb.multiprocessing.fiber` has set in this process, or in one above it."""
    found: Mapping[str, Any] = _inherited().get(CONFIG_KEY, {})
    return found


def configure(values: Mapping[str, Any]) -> None:
    """Set what this process and the processes that it starts find in `configuration`."""
    _inherited()[CONFIG_KEY] = dict(values)


def _inherited() -> dict[str, Any]:
    found: dict[str, Any] = multiprocessing.process.current_process()._config  # type: ignore[attr-defined]
    return found
