"""What the cluster has, and what ran where: resources, nodes and the timeline, by Ray's names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from fibernb.client import current, tracing
from fibernb.core.messages import NodeStatus, Status
from fibernb.model import Resources

MAX_SPANS: Final = 1_000_000


def cluster_resources() -> dict[str, float]:
    """What the nodes have, by Ray's names: ``CPU`` is the number of seats, ``memory`` in bytes."""
    status = current.require().status()
    return _sum([node.total for node in _living(status)]) if status.nodes else {"CPU": float(status.seats)}


def available_resources() -> dict[str, float]:
    """What of `cluster_resources` is free now; what is used up is left out."""
    status = current.require().status()
    if status.nodes:
        free = _sum([node.free for node in _living(status)])
    else:
        free = {"CPU": float(max(0, status.ready - status.busy))}
    return {name: amount for name, amount in free.items() if amount}


def nodes() -> list[dict[str, Any]]:
    """The hosts of the cluster, by Ray's keys."""
    status = current.require().status()
    found = status.nodes or [
        NodeStatus(
            name=status.node,
            alive=True,
            total=Resources(milli_cpus=status.seats * 1000),
            free=Resources(milli_cpus=max(0, status.ready - status.busy) * 1000),
        )
    ]
    return [
        {
            "NodeID": node.name,
            "Alive": node.alive,
            "alive": node.alive,
            "NodeManagerAddress": node.name,
            "NodeManagerHostname": node.name,
            "NodeName": node.name,
            "Resources": by_name(node.total) if node.alive else {},
            "Labels": {},
        }
        for node in found
    ]


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """What ran where and when, as a trace for Chrome (chrome://tracing) and Perfetto.

    Categories: "task" (what ran), "blocked" (the part of it that waited for other tasks in `get` or `wait`), "queued"
    (calls that waited for an engine).

    Parameters
    ----------
    filename : the file to write, as JSON; None: the events are returned instead.
    """
    session = current.require()
    spans, waits = (session.state(kind, MAX_SPANS, {})[0] for kind in ("spans", "waits"))
    events = tracing.chrome_trace(spans, waits)
    if filename is None:
        return events
    Path(filename).expanduser().write_text(json.dumps(events), encoding="utf-8")
    return None


def by_name(resources: Resources) -> dict[str, float]:
    """Resources by Ray's names; those of which there is nothing are left out."""
    named = {
        "CPU": resources.milli_cpus / 1000,
        "GPU": resources.milli_gpus / 1000,
        "memory": float(resources.memory_bytes),
        **{name: amount / 1000 for name, amount in resources.custom.items()},
    }
    return {name: amount for name, amount in named.items() if amount}


def _living(status: Status) -> list[NodeStatus]:
    return [node for node in status.nodes if node.alive]


def _sum(parts: list[Resources]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, amount in by_name(part).items():
            total[name] = total.get(name, 0.0) + amount
    return total
