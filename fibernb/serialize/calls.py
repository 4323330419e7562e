"""The arguments of a call, with references in them replaced by places to fill.

A call is pickled as a tuple: ``(args,)``, ``(args, kwargs)``, or ``(args, kwargs, places)`` where ``places`` maps the
position or the keyword of an argument to the number of the input that belongs there. Or it is a number alone: then one
of these tuples is the value of that input.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from fibernb.errors import SerializationError
from fibernb.model import ObjectId
from fibernb.serialize.pickling import PROTOCOL
from fibernb.serialize.stores import Sink, Source
from fibernb.serialize.values import Packed, dumps, is_plain, loads, pack, pack_plain

NO_ARGUMENTS: Final = Packed(pickle.dumps(((),), PROTOCOL))


class _Parted(NamedTuple):
    parts: tuple[Any, ...]  # what is pickled
    deps: tuple[ObjectId, ...]


def dumps_call(args: tuple[Any, ...], kwargs: Mapping[str, Any], is_ref: type) -> tuple[bytes, tuple[ObjectId, ...]]:
    """Pickle arguments; those that are references (of class ``is_ref``, with an ``id``) stay out of the pickle.

    Returns the pickle and the ids of the objects that it refers to. Raises `SerializationError` with the path to what
    cannot be pickled, such as ``args[0].lock``.
    """
    if not kwargs and is_plain(args):
        return pickle.dumps((args,), PROTOCOL), ()
    parts, deps = _part(args, kwargs, is_ref)
    with _paths_of_arguments():
        return dumps(parts, ""), deps


def pack_call(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], is_ref: type, sink: Sink | None
) -> tuple[Packed, tuple[ObjectId, ...]]:
    """As `dumps_call`, with large buffers in the store, and the references noted that stand inside of arguments."""
    if not kwargs:
        if not args:
            return NO_ARGUMENTS, ()
        if is_plain(args):
            return pack_plain((args,), sink), ()
    parts, deps = _part(args, kwargs, is_ref)
    with _paths_of_arguments():
        return pack(parts, "", sink), deps


def _part(args: tuple[Any, ...], kwargs: Mapping[str, Any], is_ref: type) -> _Parted:
    """Take the references out of the arguments."""
    places: dict[int | str, int] = {}
    inputs: dict[ObjectId, int] = {}
    arguments: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    references = [(place, value) for place, value in arguments if issubclass(type(value), is_ref)]
    for place, reference in references:
        places[place] = inputs.setdefault(reference.id, len(inputs))
    if not places:
        return _Parted((args, dict(kwargs)), ())
    args = tuple(None if index in places else value for index, value in enumerate(args))
    kwargs = {key: None if key in places else value for key, value in kwargs.items()}
    return _Parted((args, kwargs, places), tuple(inputs))


@contextmanager
def _paths_of_arguments() -> Iterator[None]:
    """Errors name the path to the culprit as the caller sees it."""
    try:
        yield
    except SerializationError as error:
        text = str(error)
        for step, name in (("[0]", "args"), ("[1]", "kwargs")):
            if text.startswith(step):
                raise SerializationError(name + text.removeprefix(step)) from error.__cause__
        if text.startswith(":"):  # it is only all of them together
            raise SerializationError(f"the arguments{text}") from error.__cause__
        raise


def stowed_call(number: int) -> bytes:
    """A call whose arguments, as `pack_call` packs them, are the value of one of its inputs."""
    return pickle.dumps(number, PROTOCOL)


def loads_call(
    data: bytes, inputs: Sequence[Any], source: Source | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call; ``inputs`` are the values of the objects that it refers to, in order. As `loads`."""
    parts = loads(data, source)
    if type(parts) is int:
        parts = inputs[parts]
    if len(parts) == 1:
        return parts[0], {}
    args, kwargs = parts[:2]
    if len(parts) == 2:
        return args, kwargs
    filled = list(args)
    for place, number in parts[2].items():
        if isinstance(place, int):
            filled[place] = inputs[number]
        else:
            kwargs[place] = inputs[number]
    return tuple(filled), kwargs
