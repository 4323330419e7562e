"""Why a value cannot travel: the parts of it that cannot be pickled."""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple, TextIO

from fibernb import serialize
from fibernb.errors import SerializationError
from fibernb.serialize.culprit import parts_of

__all__ = ["FailureTuple", "inspect_serializability"]

LIMIT: Final = 1000  # parts that are looked at


class FailureTuple(NamedTuple):
    """A part that cannot be pickled, though all that it consists of can, or is not known."""

    obj: Any
    name: str  # the path to it
    parent: Any


def inspect_serializability(
    base_obj: Any, name: str | None = None, depth: int = 3, print_file: TextIO | None = None
) -> tuple[bool, set[FailureTuple]]:
    """Whether a value can be pickled, and the parts because of which it cannot.

    Parameters
    ----------
    name : of the value, for the report.
    depth : how deep its parts are looked into.
    print_file : where the report goes; None: to stdout.
    """
    title = name or getattr(base_obj, "__name__", None) or type(base_obj).__name__
    out = print_file or sys.stdout
    problem = _problem(base_obj, title)
    if problem is None:
        out.write(f"{title} can be pickled\n")
        return True, set()
    search = _Search()
    search.look(title, base_obj, None, depth)
    out.write(f"{title} cannot be pickled: {problem}\n")
    out.writelines(f"  {failure.name}: {type(failure.obj).__name__}\n" for failure in search.failures)
    return False, _hashable(search.failures)


class _Search:
    """Goes down into whatever cannot be pickled."""

    def __init__(self) -> None:
        self.failures: list[FailureTuple] = []
        self._seen: dict[int, Any] = {}  # keeps what it has seen alive, so that ids stay unique

    def look(self, path: str, value: Any, parent: Any, depth: int) -> None:
        failing = [] if depth <= 0 else [part for part in parts_of(value) if self._fails(part[1])]
        for step, part in failing:
            self.look(path + step, part, value, depth - 1)
        if not failing:
            self.failures.append(FailureTuple(value, path, parent))

    def _fails(self, value: Any) -> bool:
        if id(value) in self._seen or len(self._seen) >= LIMIT:
            return False
        self._seen[id(value)] = value
        return _problem(value, "value") is not None


def _problem(value: Any, name: str) -> SerializationError | None:
    try:
        serialize.dumps(value, name)
    except SerializationError as error:
        return error
    return None


def _hashable(failures: list[FailureTuple]) -> set[FailureTuple]:
    """The failures as the set that Ray gives; what has no hash is told by its repr."""
    found = set()
    for failure in failures:
        try:
            found.add(failure)
        except TypeError:
            found.add(FailureTuple(repr(failure.obj), failure.name, repr(failure.parent)))
    return found
