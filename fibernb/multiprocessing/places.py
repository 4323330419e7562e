"""Where kernel objects are: semaphores, pipes and shared memory are known to one host, and to one cluster on it.

What stands for such an object travels as a `Place`. That it has come to where the object can be reached is checked
here and nowhere else: a relay between hosts would begin here.
"""

from __future__ import annotations

import platform
from pathlib import Path

from fibernb.client import api
from fibernb.engine import context
from fibernb.errors import ClusterError
from fibernb.model import Struct
from fibernb.store.names import prefix_of


class Place(Struct, frozen=True, kw_only=True):
    """Where something is. ``kind``: what it is, for people; ``key``: what it is known by there."""

    host: str
    cluster: str  # the prefix of its names
    kind: str
    key: str | int


def home() -> Path:
    """The directory of the cluster of this process, which starts one if there is none."""
    engine = context.current()
    return api.current_cluster().directory if engine is None else engine.directory


def cluster_prefix() -> str:
    """How the names of the cluster of this process begin, which starts one if there is none."""
    return prefix_of(home())


def place_of(kind: str, key: str | int) -> Place:
    """The place of something that this process can reach."""
    return Place(host=platform.node(), cluster=cluster_prefix(), kind=kind, key=key)


def key_at(place: Place) -> str | int:
    """What something is known by here. Raises `ClusterError` when it is out of reach."""
    if place.host != platform.node():
        raise ClusterError(
            f"a {place.kind} of host {place.host} cannot be used on host {platform.node()}: it lives in the memory of "
            "one host. A Manager's proxies, and the values of tasks, reach every host"
        )
    if place.cluster != cluster_prefix():
        raise ClusterError(
            f"a {place.kind} of another cluster came to a process that uses the cluster in {home()}: attach both to "
            "one cluster (fibernb.connect)"
        )
    return place.key
