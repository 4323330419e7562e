"""cloudpickle, adapted to a notebook and its engines.

Some things differ from cloudpickle itself:

- A class keeps its home. When instances come back to the process that defined their class, they become instances
  of that very class, and the copy of the class that travelled with them does not overwrite it. Elsewhere a newer copy
  replaces an older.
- A function that reads names which its own globals lack (yet) finds them in ``__main__`` of the process where it
  runs: on an engine that is the engine's namespace.
- Functions of one pickle that have captured the same variable do so still.
- Functions keep the name of their file, and the source lines of those that stand in none travel along, so that
  tracebacks can show them.
- Functions of `random` and `numpy.random` (``from random import random``) are methods of a hidden generator. They go by
  name: else every engine would get a copy of that generator, and draw the same.
- Arrays of numpy that numpy would copy into the pickle leave it as buffers too, and masked ones keep their hard mask.
- Structures of `ctypes` go by value as other classes do.
- Functions under `functools.cache` and `functools.lru_cache` go by value where the plain function would.
"""

from __future__ import annotations

import builtins
import functools
import linecache
import sys
import types
import weakref
from collections import ChainMap
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from cloudpickle import cloudpickle

from fibernb.serialize.arrays import reduce_array, reduce_masked
from fibernb.serialize.ctypes_classes import CTYPES, is_ctypes_field, reduce_ctypes_class

PROTOCOL: Final = 5
RANDOM_MODULES: Final = ("random", "numpy.random")

Setter: TypeAlias = Callable[[Any, Any], object]

_home_classes: Final[weakref.WeakSet[type]] = weakref.WeakSet()  # defined here and sent away
_foreign_classes: Final[weakref.WeakSet[type]] = weakref.WeakSet()  # defined elsewhere


class Excerpt(NamedTuple):
    """The source lines of a function that stands in no file."""

    filename: str
    first_line: int
    lines: list[str]


class LateGlobals(dict[str, Any]):
    """Globals of a function that reads names which were not there when it was pickled."""

    def __init__(self, shared: dict[str, Any]) -> None:
        super().__init__(shared)
        self.shared = shared  # the globals of its neighbours that lack nothing

    def __missing__(self, name: str) -> Any:
        if name in self.shared:
            return self.shared[name]
        return sys.modules["__main__"].__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return LateGlobals, (self.shared,)


def reduce_code(code: types.CodeType) -> tuple[Any, ...]:
    """As cloudpickle does it, and with the name of the file."""
    maker, arguments = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    return make_code, (maker, arguments, "".join(code.co_filename))  # a copy: equal pickles for equal codes


def make_code(maker: Callable[..., types.CodeType], arguments: tuple[Any, ...], filename: str) -> types.CodeType:
    """Called while unpickling: a code object with the name of its file, which cloudpickle leaves out."""
    return maker(*arguments).replace(co_filename=filename)


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Pickles whatever a notebook can define, by value where it has to."""

    dispatch_table = ChainMap({types.CodeType: reduce_code}, cloudpickle.Pickler.dispatch_table)

    def __init__(self, file: Any, keep_buffer: Callable[[Any], object] | None = None) -> None:
        super().__init__(file, protocol=PROTOCOL, buffer_callback=keep_buffer)
        self._late_globals: dict[int, LateGlobals] = {}
        self._cells: dict[int, tuple[types.CellType, types.CellType]] = {}  # with those that functions are made over

    def reducer_override(self, value: Any) -> Any:
        if type(value) is functools._lru_cache_wrapper:
            return _reduce_cached(value)
        if type(value).__name__ == "ndarray" and type(value).__module__ == "numpy":
            return reduce_array(value)
        if isinstance(value, types.BuiltinMethodType | types.MethodType):
            return _reduce_method(value)
        if (hard := reduce_masked(value)) is not NotImplemented:
            return hard
        if isinstance(value, type) and CTYPES in (value.__module__, type(value).__module__):
            by_parts = reduce_ctypes_class(value)
            if by_parts is not None:
                return by_parts
        reduced = super().reducer_override(value)
        if not isinstance(reduced, tuple) or len(reduced) != 6:
            return reduced
        if isinstance(value, types.FunctionType):
            return self._adapt_function(value, reduced)
        return _adapt_class(value, reduced)

    def _adapt_function(self, function: types.FunctionType, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
        maker, (code, shared, *rest, closure), state, _, _, setter = reduced
        if closure is not None:
            closure = tuple(map(self._cell_for, function.__closure__ or (), closure))
        if any(name not in function.__globals__ and not hasattr(builtins, name) for name in _global_names(code)):
            shared = self._late_globals.setdefault(id(function.__globals__), LateGlobals(shared))
        packed = (setter, state, _excerpt_of(code))
        return maker, (code, shared, *rest, closure), packed, None, None, restore_function

    def _cell_for(self, cell: types.CellType, empty: types.CellType) -> types.CellType:
        """The cell that functions over this one are made over; it gets its content afterwards."""
        return self._cells.setdefault(id(cell), (cell, empty))[1]


def _global_names(code: types.CodeType) -> list[str]:
    return list(cloudpickle._extract_code_globals(code))


# ---- functions ------------------------------------------------------------------------------------------


def restore_function(function: types.FunctionType, packed: tuple[Setter, Any, Excerpt | None]) -> None:
    """Called while unpickling: fill in a function that has just been made."""
    setter, state, excerpt = packed
    setter(function, state)
    if excerpt is not None:
        remember_source(excerpt)


def remember_source(excerpt: Excerpt) -> None:
    """Make the lines known to tracebacks, beside those of the same source that are known already."""
    entry = linecache.cache.get(excerpt.filename)
    lines = list(entry[2]) if entry is not None and len(entry) == 4 else []
    first, end = excerpt.first_line - 1, excerpt.first_line - 1 + len(excerpt.lines)
    lines.extend(["\n"] * (end - len(lines)))
    lines[first:end] = excerpt.lines
    linecache.cache[excerpt.filename] = (sum(map(len, lines)), None, lines, excerpt.filename)


def _excerpt_of(code: types.CodeType) -> Excerpt | None:
    entry = linecache.cache.get(code.co_filename)
    if entry is None or len(entry) != 4 or entry[1] is not None:
        return None  # not known, or in a file
    first, last = code.co_firstlineno, _last_line(code)
    return Excerpt(code.co_filename, first, list(entry[2][first - 1 : last]))


def _last_line(code: types.CodeType) -> int:
    own = max((line for _, _, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    return max([own, *(_last_line(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))])


def _reduce_method(method: Any) -> Any:
    for name in RANDOM_MODULES:
        module = sys.modules.get(name)
        if module is not None and getattr(module, method.__name__, None) == method:
            return getattr, (module, method.__name__)
    return NotImplemented


def _reduce_cached(cached: Any) -> Any:
    if cloudpickle._lookup_module_and_qualname(cached) is not None:
        return NotImplemented
    parameters = cached.cache_parameters()
    return restore_cached, (cached.__wrapped__, parameters["maxsize"], parameters["typed"])


def restore_cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Any:
    """Called while unpickling: a function under an empty `functools.lru_cache`."""
    return functools.lru_cache(maxsize, typed)(function)


# ---- classes --------------------------------------------------------------------------------------------


def _adapt_class(class_: type, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    maker, arguments, state, _, _, setter = reduced
    state[0].pop("__slotnames__", None)  # copyreg's cache, there only after an instance has been pickled
    for name in [name for name, member in state[0].items() if is_ctypes_field(member)]:
        del state[0][name]
    if class_ not in _foreign_classes:
        _home_classes.add(class_)
    return make_class, (maker, arguments), (setter, state), None, None, restore_class


def make_class(maker: Callable[..., type], arguments: tuple[Any, ...]) -> type:
    """Called while unpickling: the class of that identity, which is a new one the first time."""
    class_ = maker(*arguments)
    if class_ not in _home_classes:
        _foreign_classes.add(class_)
    return class_


def restore_class(class_: type, packed: tuple[Setter, Any]) -> None:
    """Called while unpickling: bring a class up to date, unless this process is where it was defined."""
    setter, state = packed
    if class_ in _foreign_classes:
        setter(class_, state)
