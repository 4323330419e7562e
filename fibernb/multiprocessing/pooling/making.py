"""Makes jobs of what a pool's methods are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from fibernb.multiprocessing import reduction
from fibernb.multiprocessing.pooling.codes import ABSENT, is_plain
from fibernb.multiprocessing.pooling.jobs import Items, Job, Listed
from fibernb.multiprocessing.pooling.messages import Blobs, Form, Shape
from fibernb.multiprocessing.pooling.owner import Owner

Function = Callable[..., Any]

SHAPES: Final = {  # by whether an item holds several arguments, and whether it is a chunk of items
    (False, False): Shape.ONE,
    (True, False): Shape.STAR,
    (False, True): Shape.MANY,
    (True, True): Shape.STAR_MANY,
}
_ONE: Final = Listed((None,))  # a call that is pickled already


def call_job(owner: Owner, number: int, function: Function, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Job:
    """The job of one call. Raises whatever its pickling raises."""
    if not is_plain(function):
        packed = _apart(reduction.dumps((function, args, kwargs)))
        pace = owner.codes.paces_of(function).calls
        return Job(number=number, function=ABSENT, shape=Shape.WHOLE_CALL, items=_ONE, pace=pace, packed=packed)
    code = owner.codes.of(function)
    shape = Shape.CALL if kwargs else Shape.STAR
    packed = _apart(reduction.dumps((args, kwargs) if kwargs else args))
    return Job(number=number, function=code.number, shape=shape, items=_ONE, pace=code.paces.calls, packed=packed)


def items_job(owner: Owner, number: int, function: Function, items: Items, chunk: int | None, *, star: bool) -> Job:
    """The job of many items.

    Parameters
    ----------
    chunk : how many arguments an item is, if the user has chosen; else an item is one.
    star : an argument is a sequence of arguments.

    Raises whatever the pickling of the function raises.
    """
    code = owner.codes.of(function)
    if not is_plain(function):
        owner.pass_on(code.number)
    pace = code.paces.calls if chunk is None else code.paces.of_chunks(chunk)
    return Job(number=number, function=code.number, shape=SHAPES[star, chunk is not None], items=items, pace=pace)


def chunked(items: Sequence[Any], chunk: int | None) -> Sequence[Any]:
    """The items, or chunks of so many."""
    if chunk is None:
        return items
    return [items[start : start + chunk] for start in range(0, len(items), chunk)]


def _apart(pickled: bytes) -> Blobs:
    return Blobs(form=Form.APART, data=[pickled])
