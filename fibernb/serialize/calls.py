"""The arguments of a call, with references in them replaced by places to fill.

A call is pickled as a tuple: ``(args,)``, ``(args, kwargs)``, or ``(args, kwargs, places)`` where ``places`` maps the
position or the keyword of an argument to the number of the input that belongs there.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from fibernb.errors import SerializationError
from fibernb.model import ObjectId
from fibernb.serialize.pickling import PROTOCOL
from fibernb.serialize.values import dumps, is_plain, loads


def dumps_call(args: tuple[Any, ...], kwargs: Mapping[str, Any], is_ref: type) -> tuple[bytes, tuple[ObjectId, ...]]:
    """Pickle arguments; those that are references (of class ``is_ref``, with an ``id``) stay out of the pickle.

    Returns the pickle and the ids of the objects that it refers to. Raises `SerializationError` with the path to what
    cannot be pickled, such as ``args[0].lock``.
    """
    if not kwargs and is_plain(args):
        return pickle.dumps((args,), PROTOCOL), ()
    places: dict[int | str, int] = {}
    inputs: dict[ObjectId, int] = {}
    arguments: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    references = [(place, value) for place, value in arguments if issubclass(type(value), is_ref)]
    for place, reference in references:
        places[place] = inputs.setdefault(reference.id, len(inputs))
    if places:
        args = tuple(None if index in places else value for index, value in enumerate(args))
        kwargs = {key: None if key in places else value for key, value in kwargs.items()}
    return _dumps_parts(args, dict(kwargs), places), tuple(inputs)


def _dumps_parts(args: tuple[Any, ...], kwargs: dict[str, Any], places: dict[int | str, int]) -> bytes:
    try:
        return dumps((args, kwargs, places) if places else (args, kwargs), "")
    except SerializationError as error:
        text = str(error)
        for step, name in (("[0]", "args"), ("[1]", "kwargs")):
            if text.startswith(step):
                raise SerializationError(name + text.removeprefix(step)) from error.__cause__
        raise


def loads_call(data: bytes, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call; ``inputs`` are the values of the objects that it refers to, in order."""
    parts = loads(data)
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
