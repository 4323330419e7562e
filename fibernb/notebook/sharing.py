"""Which variables of the notebook hold the same object, so that they are to be sent together.

A model and its optimizer, two functions over one captured variable, a list that has two names: pickled one by one they
would come apart on the engine, and what is done to one would not be seen through the other.
"""

from __future__ import annotations

import contextlib
import enum
import types
from collections.abc import Mapping
from typing import Any, Final

from fibernb.serialize.pickling import Pickler

_FIXED: Final = (
    str,
    bytes,
    tuple,
    frozenset,
    type,
    enum.Enum,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    types.CodeType,
)


def groups(values: Mapping[str, object]) -> list[tuple[str, ...]]:
    """The names, those together whose values share an object that can be changed."""
    if len(values) < 2:
        return [tuple(values)] if values else []
    found: list[tuple[list[str], dict[int, Any]]] = []
    for name, value in values.items():
        names: list[str] = []
        objects = _changeable(value)
        for other in [other for other in found if not objects.keys().isdisjoint(other[1])]:
            found.remove(other)
            names += other[0]
            objects |= other[1]
        found.append(([*names, name], objects))
    return [tuple(names) for names, _ in found]


def _changeable(value: object) -> dict[int, Any]:
    """The objects that a value consists of, by their ids, which are theirs as long as this dict lives."""
    pickler = Pickler(_Nowhere(), lambda _: False)
    with contextlib.suppress(Exception):  # a value's own code may do otherwise the second time: then it goes alone
        pickler.dump(value)
    return {id(part): part for _, part in pickler.memo.copy().values() if _can_change(part)}


def _can_change(part: Any) -> bool:
    if isinstance(part, _FIXED):
        return False
    hash_: Any = type(part).__hash__
    return hash_ in (None, object.__hash__) or hasattr(part, "__dict__")


class _Nowhere:
    def write(self, data: object) -> None:
        """Drop it."""
