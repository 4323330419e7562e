"""Finds which part of a value cannot be pickled."""

from __future__ import annotations

import builtins
import functools
import pickle
import types
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from fibernb.errors import SerializationError
from fibernb.serialize.pickling import PROTOCOL, Pickler

MAX_DEPTH: Final = 50
MAX_TRIALS: Final = 20_000
TO_AN_ARGUMENT: Final = 2  # steps from the pickled parts of a call (which have no name) to one of its arguments
ADVICE: Final = "make it where it is used, or let its owner leave it out (__getstate__)"

Part: TypeAlias = tuple[str, Any]  # how the part is written behind the path of the whole, and the part

_ATOMS: Final = (type(None), bool, int, float, complex, str, bytes, bytearray)


def explain(value: object, name: str, error: Exception) -> SerializationError:
    """The error to raise for a value that could not be pickled: the path to the culprit, and what is wrong with it."""
    if isinstance(error, SerializationError):
        return error
    if isinstance(error.__cause__, RecursionError) or isinstance(error, RecursionError):
        path, _ = _Search().deepest(name, value, error, 0 if name else TO_AN_ARGUMENT)
        return SerializationError(f"{path}: nested too deeply to be pickled: pass it in parts, or flat")
    path, cause = _Search().deepest(name, value, error)
    is_plain = isinstance(cause, TypeError | pickle.PicklingError)  # else it comes from the value's own code
    return SerializationError(f"{path}: {cause}: {ADVICE}" if is_plain else f"{path}: {cause}")


class _Nowhere:
    def write(self, data: object) -> None:
        """Drop it."""


class _Search:
    """A search in the parts of a value; bounded, and safe against cycles."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}  # keeps what it has seen alive, so that ids stay unique
        self._trials = 0

    def deepest(self, path: str, value: Any, error: Exception, steps: int = MAX_DEPTH) -> tuple[str, Exception]:
        """Path and error of the smallest part that fails by itself, so many steps down at most."""
        for _ in range(steps):
            failing = self._failing_part(value)
            if failing is None:
                break
            (step, value), error = failing
            path += step
        return path, error

    def _failing_part(self, value: Any) -> tuple[Part, Exception] | None:
        for part in parts_of(value):
            error = self._trial(part[1])
            if error is not None:
                return part, error
        return None

    def _trial(self, value: Any) -> Exception | None:
        if isinstance(value, _ATOMS) or id(value) in self._seen or self._trials >= MAX_TRIALS:
            return None
        self._seen[id(value)] = value
        self._trials += 1
        try:
            Pickler(_Nowhere(), lambda _: True).dump(value)
        except Exception as error:  # noqa: BLE001  a user's __reduce__ may raise anything
            return error
        return None


def parts_of(value: Any) -> Iterator[Part]:
    """The parts that are pickled with a value."""
    if isinstance(value, dict):
        yield from (("{" + _short(key) + "}", key) for key in value)
        yield from ((f"[{_short(key)}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("{" + _short(item) + "}", item) for item in value)
    if isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, types.MethodType):
        yield from ((".__self__", value.__self__), (".__func__", value.__func__))
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, type):
        yield from ((f".{name}", part) for name, part in vars(value).items() if name not in ("__dict__", "__weakref__"))
    else:
        yield from _parts_of_object(value)


def _parts_of_function(function: types.FunctionType) -> Iterator[Part]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f".closure[{name!r}]", cell.cell_contents
        except ValueError:
            continue  # not bound yet
    names = [*function.__code__.co_names, *(name for code in _inner_codes(function.__code__) for name in code.co_names)]
    for name in dict.fromkeys(names):
        if name in function.__globals__ and not hasattr(builtins, name):
            yield f".globals[{name!r}]", function.__globals__[name]
    yield from ((f".defaults[{index}]", default) for index, default in enumerate(function.__defaults__ or ()))
    yield from ((f".defaults[{name!r}]", default) for name, default in (function.__kwdefaults__ or {}).items())
    yield from ((f".{name}", part) for name, part in function.__dict__.items())


def _inner_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inner_codes(constant)


def _parts_of_object(value: Any) -> Iterator[Part]:
    """What the value's own reduction hands to the pickler."""
    if isinstance(value, list | tuple | dict | set | frozenset) and type(value).__module__ == "builtins":
        return
    try:
        reduced = value.__reduce_ex__(PROTOCOL)
    except Exception:  # noqa: BLE001  then the value itself is the culprit
        return
    if not isinstance(reduced, tuple):
        return
    padded: tuple[Any, ...] = (*reduced, None, None, None)
    _, arguments, state, items, pairs, *_ = padded
    if state is not None:
        yield from _parts_of_state(state)
    if isinstance(value, BaseException):
        yield from ((f".args[{index}]", part) for index, part in enumerate(value.args))
    yield from ((f".__reduce__()[1][{index}]", part) for index, part in enumerate(arguments))
    yield from ((f"[{index}]", item) for index, item in enumerate(items or ()))
    yield from ((f"[{_short(key)}]", item) for key, item in pairs or ())


def _parts_of_state(state: Any) -> Iterator[Part]:
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
        yield from _parts_of_state(state[0] or {})
        yield from _parts_of_state(state[1])
    elif isinstance(state, dict):
        yield from ((f".{name}", part) for name, part in state.items())
    elif not isinstance(state, pickle.PickleBuffer):
        yield ".__getstate__()", state


def _short(key: object) -> str:
    try:
        text = repr(key)
    except Exception:  # noqa: BLE001  a user's repr may raise anything
        return f"<{type(key).__name__}>"
    return text if len(text) <= 40 else text[:37] + "..."
