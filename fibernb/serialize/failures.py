"""Exceptions that travel: they come back as themselves whenever that is possible at all.

An exception is sent in several forms, and the receiver takes the first one that works there:

1. its own pickle, if that gives the same type and text again;
2. its type, arguments and attributes, put together without calling ``__init__`` (whose signature may not fit the
   arguments); an attribute that cannot be pickled is replaced by an `Unpicklable` with its repr. Groups go member by
   member;
3. a stand-in: a class of the same name that derives from the nearest base which the receiver can import, so that
   ``except ValueError`` still matches, with the original text.

Ahead of the pickle stands what kind of exception it is and how its text begins, so that who passes it on can tell
people without unpickling anything.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import pickle
import struct
import types
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from fibernb.errors import RemoteTraceback, SerializationError
from fibernb.serialize.pickling import PROTOCOL
from fibernb.serialize.values import Unpicklable, dumps, loads

Form: TypeAlias = tuple[str, Any]

# What pickle.dumps makes of this is in the wire form: the forms of the exception, the text of its traceback.
Account: TypeAlias = tuple[list[Form], str]

_FIELD_TYPES: Final = (types.MemberDescriptorType, types.GetSetDescriptorType)

# ``obj`` of an AttributeError is any object at all, and Python's own pickle leaves it out as well.
_NOT_SENT: Final = frozenset({"obj", "exceptions", "__weakref__", "__dict__"})


SHORT_CHARACTERS: Final = 200  # of what is told of an exception in short
_HEAD: Final = struct.Struct("<BH")  # the mark, and how many bytes what is told in short has
_MARK: Final = 0x03  # no other value begins with it: see `frames`


def dumps_error(error: BaseException, traceback_text: str = "") -> bytes:
    """Pickle an exception and the text of its traceback; never fails."""
    short = _short(error).encode("utf-8", "backslashreplace")
    return b"".join((_HEAD.pack(_MARK, len(short)), short, pickle.dumps((_forms_of(error), traceback_text), PROTOCOL)))


def told_error(data: bytes) -> str:
    """Of what `dumps_error` gave: the type and the first line of the text, cut; unpickles nothing. Empty for others."""
    if len(data) < _HEAD.size or data[0] != _MARK:
        return ""
    _, length = _HEAD.unpack_from(data)
    return bytes(data[_HEAD.size : _HEAD.size + length]).decode("utf-8", "replace")


def loads_error(data: bytes) -> BaseException:
    """The exception, with a `RemoteTraceback` of the text as its ``__cause__``."""
    _, length = _HEAD.unpack_from(data)
    forms, text = pickle.loads(memoryview(data)[_HEAD.size + length :])
    error = _revive(forms)
    if text:
        error.__cause__ = RemoteTraceback(text)
    return error


# ---- sending --------------------------------------------------------------------------------------------


def _short(error: BaseException) -> str:
    first_line = next(filter(None, map(str.strip, _text_of(error)[:10_000].splitlines())), "")
    told = f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
    return told if len(told) <= SHORT_CHARACTERS else f"{told[: SHORT_CHARACTERS - 1]}…"


def _forms_of(error: BaseException) -> list[Form]:
    stand_in = ("stand-in", _description(error))
    whole = _try_dumps(error)
    if whole is not None and _comes_back(whole, error):
        return [("pickle", whole), stand_in]
    if isinstance(error, BaseExceptionGroup):
        return [("group", _parts_of_group(error)), stand_in]
    rebuilt = _try_dumps(_parts_of(error))
    if rebuilt is not None and _comes_back(rebuilt, error, _rebuild):
        return [("parts", rebuilt), stand_in]
    return [stand_in]


def _try_dumps(value: object) -> bytes | None:
    try:
        return dumps(value)
    except SerializationError:
        return None


def _comes_back(data: bytes, error: BaseException, revive: Callable[[Any], Any] = lambda value: value) -> bool:
    try:
        copy = revive(loads(data))
    except Exception:  # noqa: BLE001  whatever a user's class raises: this form does not work
        return False
    return type(copy) is type(error) and _text_of(copy) == _text_of(error)


def _parts_of(error: BaseException) -> tuple[type, tuple[Any, ...], dict[str, Any]]:
    args = tuple(_sendable(argument) for argument in error.args)
    attributes = {**fields_of(error), **error.__dict__}
    return type(error), args, {name: _sendable(value) for name, value in attributes.items()}


def fields_of(error: BaseException) -> dict[str, Any]:
    """What the exception's built-in classes keep beside ``args``, as the code of a `SystemExit`; no Nones."""
    found = {}
    for name in _field_names(type(error)):
        with contextlib.suppress(AttributeError, TypeError):  # one that was never set
            found[name] = getattr(error, name)
    return {name: value for name, value in found.items() if value is not None}


def set_fields(error: BaseException, fields: dict[str, Any]) -> None:
    """Give the exception what `fields_of` has found in another one."""
    for name, value in fields.items():
        with contextlib.suppress(AttributeError, TypeError):  # one that can only be read
            setattr(error, name, value)


def _field_names(kind: type[BaseException]) -> list[str]:
    own = [base for base in kind.__mro__[:-2] if base.__module__ == "builtins"]
    names = (name for base in own for name, value in vars(base).items() if isinstance(value, _FIELD_TYPES))
    return [name for name in names if name not in _NOT_SENT]


def _sendable(value: object) -> object:
    try:
        loads(dumps(value))
    except SerializationError as error:
        return Unpicklable.of(value, error)
    except Exception as error:  # noqa: BLE001  it can be pickled but not unpickled
        return Unpicklable.of(value, SerializationError(f"cannot be unpickled: {error}"))
    return value


def _parts_of_group(group: BaseExceptionGroup[BaseException]) -> tuple[bytes | None, str, list[list[Form]], list[str]]:
    members = [_forms_of(member) for member in group.exceptions]
    return _try_dumps(type(group)), group.message, members, list(getattr(group, "__notes__", ()))


def _description(error: BaseException) -> tuple[str, str, str, list[str], list[tuple[str, str]]]:
    kind = type(error)
    bases = [(base.__module__, base.__qualname__) for base in kind.__mro__[1:-1]]
    if kind.__module__ == "builtins":
        bases.insert(0, (kind.__module__, kind.__qualname__))
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    return kind.__name__, kind.__module__, _text_of(error), notes, bases


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  a user's __str__ may raise anything
        return f"<{type(error).__name__} whose text raised an error>"


# ---- receiving ------------------------------------------------------------------------------------------


def _revive(forms: list[Form]) -> BaseException:
    for kind, content in forms[:-1]:
        try:
            error = _REVIVERS[kind](content)
        except Exception:  # noqa: BLE001, S112  the next form is there for that
            continue
        if isinstance(error, BaseException):
            return error
    return _stand_in(forms[-1][1])


def _rebuild(parts: tuple[type[BaseException], tuple[Any, ...], dict[str, Any]]) -> BaseException:
    kind, args, attributes = parts
    error = kind.__new__(kind, *args)
    error.args = args
    set_fields(error, {name: attributes.pop(name) for name in _field_names(kind) if name in attributes})
    error.__dict__.update(attributes)
    return error


def _revive_group(parts: tuple[bytes | None, str, list[list[Form]], list[str]]) -> BaseException:
    pickled_kind, message, members, notes = parts
    group = _group_type(pickled_kind)(message, [_revive(forms) for forms in members])
    for note in notes:
        group.add_note(note)
    return group


def _group_type(pickled_kind: bytes | None) -> Callable[[str, list[BaseException]], BaseException]:
    if pickled_kind is None:
        return BaseExceptionGroup
    try:
        kind = loads(pickled_kind)
    except Exception:  # noqa: BLE001  a class that the receiver does not have
        return BaseExceptionGroup
    return functools.partial(kind.__new__, kind)


def _stand_in(description: tuple[str, str, str, list[str], list[tuple[str, str]]]) -> BaseException:
    name, module, text, notes, bases = description
    base: Any = _nearest(bases)  # a class is hashable, which its type does not say
    kind = _stand_in_type(name, module, base)
    error = kind.__new__(kind)
    error.args = (text,)
    for note in notes:
        error.add_note(note)
    return error


@functools.lru_cache(256)
def _stand_in_type(name: str, module: str, base: Any) -> type[BaseException]:
    def text_of(self: BaseException) -> str:
        return str(self.args[0])

    return type(name, (base,), {"__module__": module, "__str__": text_of, "__doc__": f"Stands in for {module}.{name}."})


def _nearest(bases: list[tuple[str, str]]) -> type[BaseException]:
    for module, path in bases:
        try:
            holder: Any = importlib.import_module(module)
            found = functools.reduce(getattr, path.split("."), holder)
        except (ImportError, AttributeError):
            continue
        if isinstance(found, type) and issubclass(found, BaseException) and not issubclass(found, BaseExceptionGroup):
            return found
    return Exception


_REVIVERS: Final[dict[str, Callable[[Any], Any]]] = {
    "pickle": loads,
    "parts": lambda data: _rebuild(loads(data)),
    "group": _revive_group,
}
