"""The actors that can be found by name."""

from __future__ import annotations

from typing import Any, Final

from fibernb.client import current, job

__all__ = ["list_named_actors"]

LIMIT: Final = 100_000


def list_named_actors(all_namespaces: bool = False) -> list[Any]:
    """The names of living actors, in this namespace.

    Parameters
    ----------
    all_namespaces : of all namespaces; then the items are dicts with "namespace" and "name".
    """
    rows, _ = (current.session or current.require()).state("actors", LIMIT, {})
    named = [row for row in rows if row.get("name") and row["state"] != "DEAD"]
    if all_namespaces:
        return [{"namespace": row.get("namespace", ""), "name": row["name"]} for row in named]
    here = job.current().namespace
    return [row["name"] for row in named if row.get("namespace", "") == here]
