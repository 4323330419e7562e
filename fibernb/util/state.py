"""What there is on the cluster, and what there was: rows to look at, by the names of ``ray.util.state``.

A row is a dict whose keys are attributes too. Filters are triples such as ``("state", "=", "ALIVE")``; values are
compared as texts. History is bounded: of what has ended, the latest is kept.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from fibernb.client import current
from fibernb.errors import ConfigError

__all__ = [
    "Row",
    "get_actor",
    "get_engine",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_engines",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_tasks",
    "list_workers",
    "summarize_actors",
    "summarize_engines",
    "summarize_objects",
    "summarize_tasks",
]

Filter: TypeAlias = tuple[str, str, Any]

LIMIT: Final = 100  # rows, unless asked otherwise
ALL: Final = 1_000_000
ALIASES: Final = {  # Ray's name to ours
    "node_id": "node",
    "ray_namespace": "namespace",
    "func_or_class_name": "name",
    "num_restarts": "restarts",
    "worker_id": "engine",
    "object_size": "size_bytes",
    "error_message": "error",
}
MOST_ERRORS: Final = 5  # of one function in a summary, the most frequent ones
PREDICATES: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": lambda found, wanted: found == wanted,
    "!=": lambda found, wanted: found != wanted,
}


class Row(dict[str, Any]):
    """One thing that there is. Ray's names of what is called otherwise here work too."""

    def __missing__(self, key: str) -> Any:
        alias = ALIASES.get(key)
        if alias is None or alias not in self:
            raise KeyError(key)
        return self[alias]

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this row has no {name!r}; it has {', '.join(self)}") from None


def list_tasks(*, filters: Sequence[Filter] | None = None, limit: int = LIMIT, **ignored: Any) -> list[Row]:
    """Tasks and calls of actors: those that have not ended, then the latest that have.

    ``error`` of one that failed or was cancelled: the type of the exception and the first line of its message.
    """
    return _rows("tasks", filters, limit, ignored)


def list_actors(*, filters: Sequence[Filter] | None = None, limit: int = LIMIT, **ignored: Any) -> list[Row]:
    """Actors, the newest first, then the latest of those that have ended and that nobody has a handle of any more."""
    return _rows("all actors", filters, limit, ignored)


def list_objects(*, filters: Sequence[Filter] | None = None, limit: int = LIMIT, **ignored: Any) -> list[Row]:
    """Objects that are kept, and for whom."""
    return _rows("objects", filters, limit, ignored)


def list_engines(*, filters: Sequence[Filter] | None = None, limit: int = LIMIT, **ignored: Any) -> list[Row]:
    """The seats with their engines, and the engines beside them."""
    return _rows("engines", filters, limit, ignored)


def list_nodes(*, filters: Sequence[Filter] | None = None, limit: int = LIMIT, **ignored: Any) -> list[Row]:
    """The hosts of the cluster."""
    return _rows("nodes", filters, limit, ignored)


def list_placement_groups(*, filters: Sequence[Filter] | None = None, limit: int = LIMIT, **ignored: Any) -> list[Row]:
    """Placement groups, the newest first."""
    return _rows("groups", filters, limit, ignored)


list_workers: Final = list_engines


def get_task(id: str) -> Row | None:  # noqa: A002  a name of Ray's
    """The task of this id; None when it is not known."""
    return _one("tasks", "task_id", id)


def get_actor(id: str) -> Row | None:  # noqa: A002  a name of Ray's
    """The actor of this id; None when it is not known."""
    return _one("all actors", "actor_id", id)


def get_objects(object_id: str) -> list[Row]:
    """What is known of the object of this id."""
    return _rows("objects", [("object_id", "=", object_id)], ALL, {})


def get_engine(id: str | int) -> Row | None:  # noqa: A002  a name of Ray's
    """The engine of this id; None when it is not there."""
    return _one("engines", "engine", id)


def get_node(id: str) -> Row | None:  # noqa: A002  a name of Ray's
    """The host of this id; None when it is not there."""
    return _one("nodes", "node", id)


def get_placement_group(id: str) -> Row | None:  # noqa: A002  a name of Ray's
    """The placement group of this id; None when it is not known."""
    return _one("groups", "placement_group_id", id)


get_worker: Final = get_engine


def summarize_tasks(**ignored: Any) -> dict[str, Any]:
    """How many tasks there are in which state, by function; and with which errors, the most frequent ones."""
    rows = _rows("tasks", None, ALL, ignored)
    of_actors = sum(1 for row in rows if row.get("actor_id"))
    told = _summary(
        rows,
        "func_or_class_name",
        "name",
        {"total_tasks": len(rows) - of_actors, "total_actor_tasks": of_actors, "summary_by": "func_name"},
    )
    for name, errors in _errors_by_function(rows).items():
        told["cluster"]["summary"][name]["errors"] = dict(errors.most_common(MOST_ERRORS))
    return told


def _errors_by_function(rows: Iterable[Row]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for row in rows:
        if row.get("error"):
            found.setdefault(row["name"], Counter())[row["error"]] += 1
    return found


def summarize_actors(**ignored: Any) -> dict[str, Any]:
    """How many actors there are in which state, by class."""
    rows = _rows("all actors", None, ALL, ignored)
    return _summary(rows, "class_name", "class_name", {"total_actors": len(rows), "summary_by": "class"})


def summarize_objects(**ignored: Any) -> dict[str, Any]:
    """How many objects are kept in which state, by the function that made them."""
    rows = _rows("objects", None, ALL, ignored)
    return _summary(rows, "made_by", "made_by", {"total_objects": len(rows), "summary_by": "made_by"})


def summarize_engines(**ignored: Any) -> dict[str, Any]:
    """How many engines there are in which state: on the seats, beside them, and with actors."""
    rows = _rows("engines", None, ALL, ignored)
    for row in rows:
        beside = "actors" if row["actor_id"] else "beside the seats"
        row["place"] = beside if row["rank"] < 0 else "seats"
    return _summary(rows, "place", "place", {"total_engines": len(rows), "summary_by": "place"})


def _summary(rows: Iterable[Row], title: str, key: str, totals: dict[str, Any]) -> dict[str, Any]:
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row.get(key, ""), Counter())[row["state"]] += 1
    summary = {name: {title: name, "state_counts": dict(states)} for name, states in counts.items()}
    return {"cluster": {"summary": summary, **totals}}


def _one(kind: str, key: str, value: Any) -> Row | None:
    rows = _rows(kind, [(key, "=", value)], 1, {})
    return rows[0] if rows else None


def _rows(kind: str, filters: Sequence[Filter] | None, limit: int, ignored: dict[str, Any]) -> list[Row]:
    """Rows that pass all filters. ``ignored``: Ray's arguments that change nothing here."""
    unknown = set(ignored) - {"address", "timeout", "detail", "raise_on_missing_output", "explain", "_explain"}
    if unknown:
        raise TypeError(f"there is no argument {sorted(unknown)[0]!r}: give filters= and limit=")
    checked = [_checked(each) for each in filters or ()]
    equal = {key: wanted for key, predicate, wanted in checked if predicate == "="}
    others = [each for each in checked if each[1] != "="]
    rows, _ = current.require().state(kind, ALL if others else limit, equal)
    found = [Row(row) for row in rows if _passes(row, others)][:limit]
    if checked and not found:
        _check_keys(kind, [key for key, _, _ in checked])
    return found


def _check_keys(kind: str, keys: Iterable[str]) -> None:
    """Raise `ConfigError` for a key that no row has, if there are rows."""
    rows, _ = current.require().state(kind, LIMIT, {})
    known = {key for row in rows for key in row}
    for key in keys:
        if known and key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
            raise ConfigError(f"{kind} have no {key!r} to filter by: {hint}")


def _passes(row: dict[str, Any], filters: Iterable[tuple[str, str, str]]) -> bool:
    return all(PREDICATES[predicate](str(row.get(key, "")), wanted) for key, predicate, wanted in filters)


def _checked(given: Any) -> tuple[str, str, str]:
    if not isinstance(given, list | tuple) or len(given) != 3 or given[1] not in PREDICATES:
        raise ConfigError(f"a filter cannot be {given!r}. It accepts a triple such as ('state', '=', 'ALIVE').")
    key, predicate, wanted = given
    return ALIASES.get(key) or key, predicate, str(wanted)
