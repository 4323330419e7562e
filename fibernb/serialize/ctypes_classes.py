"""Structures of ctypes that a notebook or script defines, by value."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

CTYPES: Final = "_ctypes"  # the module
BASES: Final = ("Structure", "Union")  # of `ctypes`

Reduced: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]


def is_ctypes_field(member: object) -> bool:
    """Whether a member of a class is one that the class makes by itself from its ``_fields_``."""
    return type(member).__name__ == "CField" and type(member).__module__ == CTYPES


def reduce_ctypes_class(class_: Any) -> Reduced | None:
    """How to pickle a class that has no name by which it could be found: that of an array, and of a structure's class.

    None for other classes.
    """
    ctypes: Any = sys.modules.get("ctypes")
    if ctypes is None:
        return None
    if type(class_) is type(ctypes.Array):
        is_plain = class_ is not ctypes.Array and class_ is class_._type_ * class_._length_
        return (operator.mul, (class_._type_, class_._length_)) if is_plain else None
    bases = (getattr(ctypes, name) for name in BASES)
    return next(((type, (base,)) for base in bases if type(base) is class_), None)
