"""Helpers around tasks and actors, by the names that users of ``ray.util`` know."""

from __future__ import annotations

from fibernb.util import scheduling_strategies, state
from fibernb.util.actor_pool import ActorPool
from fibernb.util.check_serialize import inspect_serializability
from fibernb.util.completion import as_completed, map_unordered
from fibernb.util.named_actors import list_named_actors
from fibernb.util.noise import NoiseTable
from fibernb.util.placement_group import (
    PlacementGroup,
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from fibernb.util.queue import Empty, Full, Queue

__all__ = [
    "ActorPool",
    "Empty",
    "Full",
    "NoiseTable",
    "PlacementGroup",
    "Queue",
    "as_completed",
    "get_current_placement_group",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "map_unordered",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
    "scheduling_strategies",
    "state",
]
