"""Placement groups: resources that are reserved together, before the tasks and actors come that use them."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fibernb.client import current, options
from fibernb.client.refs import ObjectRef
from fibernb.client.session import Session
from fibernb.client.waiting import wait
from fibernb.engine import context
from fibernb.errors import ConfigError
from fibernb.model import ObjectId, Resources

__all__ = [
    "PlacementGroup",
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
]

STRATEGIES: Final = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
WAIT_S: Final = 30.0

# A group lives until it is removed or its maker ends, whatever becomes of the variable that it was bound to.
_made: Final[weakref.WeakKeyDictionary[Session, dict[ObjectId, PlacementGroup]]] = weakref.WeakKeyDictionary()


class PlacementGroupID(str):
    """The id of a placement group, in hexadecimal."""

    __slots__ = ()

    def hex(self) -> str:
        """The text itself."""
        return str(self)


class PlacementGroup:
    """Bundles of resources on nodes. Tasks and actors run in one by a `PlacementGroupSchedulingStrategy`."""

    def __init__(self, ref: ObjectRef, bundles: Sequence[Mapping[str, float]], strategy: str, name: str = "") -> None:
        self._ref = ref
        self._bundles = [dict(bundle) for bundle in bundles]
        self.strategy = strategy
        self.name = name

    @property
    def id(self) -> PlacementGroupID:
        """What the state of the cluster calls it."""
        return PlacementGroupID(f"{self._ref.id:#x}")

    @property
    def object_id(self) -> ObjectId:
        """What the scheduler calls it."""
        return self._ref.id

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """The resources of each bundle, by Ray's names."""
        return [dict(bundle) for bundle in self._bundles]

    @property
    def bundle_count(self) -> int:
        return len(self._bundles)

    @property
    def is_empty(self) -> bool:
        """Ray's: a group has bundles always."""
        return not self._bundles

    def ready(self) -> ObjectRef:
        """A reference that is ready once everything is reserved; it fails when that can never be."""
        return self._ref

    def wait(self, timeout_seconds: float = WAIT_S) -> bool:
        """Whether everything is reserved, waiting for it at most so many seconds.

        Raises `TaskUnschedulable` when that can never be.
        """
        ready, _ = wait([self._ref], timeout=timeout_seconds)
        if ready:
            self._ref.result(0)
        return bool(ready)

    def __reduce__(self) -> tuple[Any, ...]:
        return PlacementGroup, (self._ref, self._bundles, self.strategy, self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and self._ref == other._ref

    def __hash__(self) -> int:
        return hash(self._ref)

    def __repr__(self) -> str:
        return f"PlacementGroup({self.id}, {self.strategy}, {self._bundles!r:.200})"


def placement_group(
    bundles: Sequence[Mapping[str, float]], strategy: str = "PACK", name: str = "", lifetime: str | None = None
) -> PlacementGroup:
    """Reserve resources, all of them or none.

    Parameters
    ----------
    bundles : resources by name ("CPU", "GPU", "memory" in bytes, custom ones); each bundle stands on one node.
    strategy : how bundles lie on nodes: together (PACK), apart (SPREAD), or so and not otherwise (STRICT_PACK,
        STRICT_SPREAD).
    name : by which `get_placement_group` finds it.
    lifetime : "detached": it stays when its maker ends, until it is removed.

    Raises `ConfigError` for what cannot be a group.
    """
    if strategy not in STRATEGIES:
        raise ConfigError(f"strategy cannot be {strategy!r}. It accepts {', '.join(STRATEGIES)}.")
    if lifetime not in (None, "detached"):
        raise ConfigError(f"lifetime cannot be {lifetime!r}. It accepts 'detached' or None.")
    parsed = _parsed(bundles)
    session = current.session or current.require()
    ref = session.create_group(
        parsed, strategy=strategy, name=options.text("name", name), detached=lifetime == "detached"
    )
    group = PlacementGroup(ref, bundles, strategy, name)
    _made.setdefault(session, {})[ref.id] = group
    return group


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Give the resources of a group back; tasks and actors in it end."""
    if not isinstance(placement_group, PlacementGroup):
        raise TypeError(f"remove_placement_group takes a PlacementGroup, not {type(placement_group).__name__}")
    session = current.session or current.require()
    session.remove_group(placement_group.ready())
    _made.get(session, {}).pop(placement_group.object_id, None)


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """The group that was made with this name. Raises `ConfigError` (a ValueError) when there is none."""
    if not placement_group_name:
        raise ConfigError("get_placement_group takes the name of a placement group")
    session = current.session or current.require()
    rows, _ = session.state("groups", 1, {"name": placement_group_name})
    if not rows or rows[0]["state"] == "REMOVED":
        raise ConfigError(f"there is no placement group named {placement_group_name!r}")
    return _found(session, rows[0])


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """What is known of a group, or of all groups by id, by Ray's names."""
    session = current.session or current.require()
    where = {} if placement_group is None else {"placement_group_id": str(placement_group.id)}
    rows, _ = session.state("groups", 10_000, where)
    tables = {row["placement_group_id"]: _table(row) for row in rows}
    return tables if placement_group is None else tables.get(str(placement_group.id), {})


def get_current_placement_group() -> PlacementGroup | None:
    """The group that this task or actor runs in; None for none, and in the notebook."""
    engine = context.current()
    if engine is None or not engine.placement:
        return None
    session = current.session or current.require()
    rows, _ = session.state("groups", 1, {"placement_group_id": f"{engine.placement:#x}"})
    return _found(session, rows[0]) if rows else None


def _found(session: Session, row: Mapping[str, Any]) -> PlacementGroup:
    ref = session.borrow(int(row["placement_group_id"], 16))
    return PlacementGroup(ref, _bundles(row), row["strategy"], row["name"])


def _table(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "placement_group_id": row["placement_group_id"],
        "name": row["name"],
        "bundles": dict(enumerate(_bundles(row))),
        "bundles_to_node_id": {index: bundle["node"] for index, bundle in enumerate(row["bundles"])},
        "strategy": row["strategy"],
        "state": row["state"],
    }


def _bundles(row: Mapping[str, Any]) -> list[dict[str, float]]:
    return [{name: amount for name, amount in bundle.items() if name != "node"} for bundle in row["bundles"]]


def _parsed(bundles: Any) -> list[Resources]:
    accepts = "It accepts a list of dicts such as {'CPU': 1}."
    if not isinstance(bundles, list | tuple) or not bundles:
        raise ConfigError(f"bundles cannot be {bundles!r:.80}. {accepts}")
    for index, bundle in enumerate(bundles):
        if not isinstance(bundle, Mapping) or not bundle or not any(bundle.values()):
            raise ConfigError(f"bundles[{index}] cannot be {bundle!r:.80}: it reserves nothing. {accepts}")
    return [_resources(f"bundles[{index}]", bundle) for index, bundle in enumerate(bundles)]


def _resources(name: str, bundle: Mapping[str, float]) -> Resources:
    rest = {key: value for key, value in bundle.items() if key not in ("CPU", "GPU", "memory")}
    return Resources(
        milli_cpus=options.milli(f"{name}['CPU']", bundle.get("CPU", 0)),
        milli_gpus=options.milli(f"{name}['GPU']", bundle.get("GPU", 0)),
        memory_bytes=options.size_bytes(f"{name}['memory']", bundle.get("memory", 0)),
        custom=options.custom(name, rest),
    )
