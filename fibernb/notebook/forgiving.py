"""Pickles functions of the notebook although something that they mention cannot be pickled.

A function takes along what it reads, used in this call or not. What of it cannot be pickled is replaced by a stand-in,
so that the error comes where it is used, and not at all if it never is.
"""

from __future__ import annotations

import types
from typing import Any, Final

from fibernb.errors import SerializationError
from fibernb.notebook.standin import Pushed
from fibernb.serialize import Apart
from fibernb.serialize.pickling import Pickler

_BY_PARTS: Final = (types.FunctionType, type, types.ModuleType)  # the pickler meets their globals by itself
_CAPTURED: Final = "a variable that a function has captured"


class ForgivingPickler(Pickler):
    """Puts stand-ins into the globals and the captured variables of functions."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.CellType) and not _is_empty(value):
            return types.CellType, (_or_stand_in(_CAPTURED, value.cell_contents),)
        return super().reducer_override(value)

    def _adapt_function(self, function: types.FunctionType, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
        (attributes, slots), own = reduced[2], reduced[2][1]["__globals__"]
        given = {name: _or_stand_in(name, value) for name, value in own.items()}
        state = attributes, {**slots, "__globals__": given}
        return super()._adapt_function(function, (*reduced[:2], state, *reduced[3:]))


def _or_stand_in(name: str, value: object) -> object:
    """The value, or what stands for it if it cannot be pickled."""
    if isinstance(value, _BY_PARTS):
        return value
    try:
        Apart(value, name)
    except SerializationError as error:
        return Pushed(name, str(error))
    return value


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  looking is what tells
    except ValueError:
        return True
    return False
