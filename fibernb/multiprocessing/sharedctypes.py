"""Values and arrays of ctypes in shared memory, as the library's, to be sent wherever a value may go."""

from __future__ import annotations

import copyreg
import ctypes
import weakref
from collections.abc import Sequence
from multiprocessing import sharedctypes
from multiprocessing.sharedctypes import typecode_to_type  # type: ignore[attr-defined]  # it has no public name
from typing import Any, Final

from fibernb.multiprocessing.heap import BufferWrapper
from fibernb.multiprocessing.synchronize import RLock

__all__ = ["Array", "RawArray", "RawValue", "Value", "copy", "synchronized"]

Ctype = Any  # an object or a type of ctypes: they have no common class to name

_classes: Final[weakref.WeakKeyDictionary[type, type[SynchronizedBase]]] = weakref.WeakKeyDictionary()


# ---- raw ------------------------------------------------------------------------------------------------


def RawValue(typecode_or_type: str | type, *args: Any) -> Ctype:  # noqa: N802
    """An object of ctypes in shared memory, all zeros or made from ``args``."""
    value = _new(_type_of(typecode_or_type))
    value.__init__(*args)
    return value


def RawArray(typecode_or_type: str | type, size_or_initializer: int | Sequence[Any]) -> Ctype:  # noqa: N802
    """An array of ctypes in shared memory: so many zeros, or these items."""
    type_ = _type_of(typecode_or_type)
    if isinstance(size_or_initializer, int):
        return _new(type_ * size_or_initializer)
    array = _new(type_ * len(size_or_initializer))
    array.__init__(*size_or_initializer)
    return array


def copy(obj: Ctype) -> Ctype:
    """A copy of an object of ctypes, in shared memory."""
    new = _new(type(obj))
    ctypes.pointer(new)[0] = obj
    return new


def _type_of(typecode_or_type: str | type) -> Ctype:
    return typecode_to_type.get(typecode_or_type, typecode_or_type)


def _new(type_: Ctype) -> Ctype:
    size_bytes = ctypes.sizeof(type_)
    value = _at(type_, BufferWrapper(size_bytes))
    ctypes.memset(ctypes.addressof(value), 0, size_bytes)
    return value


def _at(type_: Ctype, wrapper: Any) -> Ctype:
    """The object of that type that is in that memory."""
    copyreg.pickle(type_, _reduce)
    value = type_.from_buffer(wrapper.create_memoryview())
    value._wrapper = wrapper
    return value


def _reduce(value: Ctype) -> tuple[Any, ...]:
    """How objects of a type are pickled of which some are in shared memory: as that memory, or by what they contain."""
    wrapper = getattr(value, "_wrapper", None)
    if wrapper is None:
        plain: tuple[Any, ...] = value.__reduce__()
        return plain
    return _received, (*_item_and_lengths(type(value)), wrapper)


def _item_and_lengths(type_: Ctype) -> tuple[Ctype, tuple[int, ...]]:
    """Types of arrays have no name by which they could travel."""
    lengths: tuple[int, ...] = ()
    while issubclass(type_, ctypes.Array):
        type_, lengths = type_._type_, (type_._length_, *lengths)
    return type_, lengths


def _received(item: Ctype, lengths: tuple[int, ...], wrapper: Any) -> Ctype:
    """Called while unpickling."""
    for length in lengths:
        item *= length
    return _at(item, wrapper)


# ---- with a lock ----------------------------------------------------------------------------------------


def Value(typecode_or_type: str | type, *args: Any, lock: Any = True, ctx: Any = None) -> Any:  # noqa: ARG001, N802
    """As `RawValue`, behind a lock: a new one (True), that one, or none (False)."""
    value = RawValue(typecode_or_type, *args)
    return value if lock is False else synchronized(value, _checked(lock))


def Array(typecode_or_type: str | type, size_or_initializer: Any, *, lock: Any = True, ctx: Any = None) -> Any:  # noqa: ARG001, N802
    """As `RawArray`, behind a lock: a new one (True), that one, or none (False)."""
    array = RawArray(typecode_or_type, size_or_initializer)
    return array if lock is False else synchronized(array, _checked(lock))


def _checked(lock: Any) -> Any:
    if lock in (True, None):
        return RLock()
    if not hasattr(lock, "acquire"):
        raise AttributeError(f"{lock!r} has no method 'acquire'")
    return lock


def synchronized(obj: Ctype, lock: Any = None, ctx: Any = None) -> Any:  # noqa: ARG001
    """Put an object of ctypes that is in shared memory behind a lock."""
    if isinstance(obj, sharedctypes.SynchronizedBase):
        raise AssertionError("object already synchronized")
    return _class_for(obj)(obj, lock)


def _class_for(obj: Ctype) -> type[SynchronizedBase]:
    if isinstance(obj, ctypes._SimpleCData):
        return Synchronized
    if isinstance(obj, ctypes.Array):
        return SynchronizedString if obj._type_ is ctypes.c_char else SynchronizedArray
    type_ = type(obj)
    if type_ not in _classes:
        _classes[type_] = _class_of_fields(type_)
    return _classes[type_]


def _class_of_fields(type_: Ctype) -> type[SynchronizedBase]:
    make_property: Any = sharedctypes.make_property  # type: ignore[attr-defined]  # not in its stub
    properties = {name: make_property(name) for name, *_ in type_._fields_}
    return type(f"Synchronized{type_.__name__}", (SynchronizedBase,), properties)


class SynchronizedBase(sharedctypes.SynchronizedBase):  # type: ignore[type-arg]  # only its stub has it
    def __init__(self, obj: Ctype, lock: Any = None, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__(obj, lock or RLock())

    def __reduce__(self: Any) -> tuple[Any, ...]:
        return synchronized, (self._obj, self._lock)


class Synchronized(SynchronizedBase, sharedctypes.Synchronized):  # type: ignore[type-arg]
    pass


class SynchronizedArray(SynchronizedBase, sharedctypes.SynchronizedArray):  # type: ignore[type-arg]
    pass


class SynchronizedString(SynchronizedArray, sharedctypes.SynchronizedString):
    pass
