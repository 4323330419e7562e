"""Where a task or an actor shall run: the scheduling strategies, by Ray's names."""

from __future__ import annotations

from typing import Any, Final, Protocol

from fibernb.errors import ConfigError
from fibernb.model import ObjectId

NAMES: Final = ("DEFAULT", "SPREAD")
ACCEPTS: Final = (
    "'DEFAULT', 'SPREAD', a PlacementGroupSchedulingStrategy or a NodeAffinitySchedulingStrategy "
    "(both in fibernb.util.scheduling_strategies)"
)
DEFAULT: Final[dict[str, Any]] = {
    "placement": 0,
    "bundle": -1,
    "node": "",
    "soft": False,
    "spread": False,
    "captures": False,
}


class Group(Protocol):
    """What is needed of a placement group; `fibernb.client.groups.PlacementGroup`."""

    @property
    def object_id(self) -> ObjectId: ...

    @property
    def bundle_count(self) -> int: ...


class PlacementGroupSchedulingStrategy:
    """Run in the resources that a placement group has reserved.

    Parameters
    ----------
    placement_group : the group.
    placement_group_bundle_index : which of its bundles; -1 for any.
    placement_group_capture_child_tasks : whether tasks and actors that it starts, and that say nothing of where they
        run, run in the group as well.
    """

    def __init__(
        self,
        placement_group: Group,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,
    ) -> None:
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks

    def fields(self) -> dict[str, Any]:
        """The options of a task that say so."""
        captures = bool(self.placement_group_capture_child_tasks)
        return group_fields(self.placement_group, self.placement_group_bundle_index, captures)


class NodeAffinitySchedulingStrategy:
    """Run on one node.

    Parameters
    ----------
    node_id : as `fibernb.nodes` and the runtime context tell it.
    soft : run elsewhere rather than wait or fail when that node is full or gone.
    """

    def __init__(self, node_id: str, soft: bool) -> None:
        self.node_id = node_id
        self.soft = soft

    def fields(self) -> dict[str, Any]:
        """The options of a task that say so."""
        if not self.node_id or type(self.node_id) is not str:
            raise ConfigError(f"node_id cannot be {self.node_id!r}. It accepts the NodeID of one of fibernb.nodes().")
        return DEFAULT | {"node": self.node_id, "soft": bool(self.soft)}


def strategy_fields(name: str, value: Any) -> dict[str, Any]:
    """The options of a task that a ``scheduling_strategy`` stands for."""
    if value is None or value == "DEFAULT":
        return dict(DEFAULT)
    if value == "SPREAD":
        return DEFAULT | {"spread": True}
    if isinstance(value, PlacementGroupSchedulingStrategy | NodeAffinitySchedulingStrategy):
        return value.fields()
    raise ConfigError(f"{name} cannot be {value!r}. It accepts {ACCEPTS}.")


def group_fields(group: Any, bundle: Any = -1, captures: bool = False) -> dict[str, Any]:
    """The options of a task that runs in a bundle of a placement group; ``None`` and "default": in none."""
    if group is None or group == "default":
        return dict(DEFAULT)
    if not hasattr(group, "object_id") or not hasattr(group, "bundle_count"):
        raise ConfigError(
            f"placement_group cannot be {group!r}. It accepts what fibernb.util.placement_group(...) gives."
        )
    count = group.bundle_count
    if isinstance(bundle, bool) or not isinstance(bundle, int) or not -1 <= bundle < count:
        raise ConfigError(
            f"placement_group_bundle_index cannot be {bundle!r}: the group has bundles 0 to {count - 1}, and -1 is any"
        )
    return DEFAULT | {"placement": group.object_id, "bundle": bundle, "captures": captures}


def keeps_of(given: dict[str, Any]) -> tuple[Any, ...]:
    """What must live as long as options do that name it: placement groups."""
    strategy = given.get("scheduling_strategy")
    named = getattr(strategy, "placement_group", None), given.get("placement_group")
    return tuple(group for group in named if group is not None and group != "default")
