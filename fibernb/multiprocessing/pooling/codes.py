"""The functions of a pool's jobs, as they travel: each worker gets the code of one once."""

from __future__ import annotations

import itertools
import types
import weakref
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fibernb.client import code as epochs
from fibernb.multiprocessing import reduction
from fibernb.multiprocessing.pooling.pace import Paces

ABSENT: Final = 0  # the number of no function


class Code(NamedTuple):
    """A function that has been pickled.

    Parameters
    ----------
    epoch : when it was, as `fibernb.client.code` counts.
    """

    number: int
    epoch: int
    paces: Paces


class Codes:
    """Numbers and pickles of functions.

    A plain function is pickled at its first use and, in a notebook, once a cell; whatever has a state (methods,
    partials, callable objects), for every job.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(ABSENT + 1)
        self._pickles: dict[int, bytes] = {}
        self._known: weakref.WeakKeyDictionary[Any, Code] = weakref.WeakKeyDictionary()

    def of(self, function: Callable[..., Any]) -> Code:
        """The code of a function. Raises whatever its pickling raises."""
        if not is_plain(function):
            return Code(self._add(reduction.dumps(function)), -1, self._lasting(function).paces)
        code = self._known.get(function)
        if code is None or code.epoch != epochs.epoch:
            code = self._known[function] = self._renewed(function, code)
        return code

    def paces_of(self, function: Callable[..., Any]) -> Paces:
        """What is known of the pace of a function, without its code."""
        return self._lasting(function).paces

    def pickle(self, number: int) -> bytes:
        """The code of that number; empty when it was forgotten since, so that nobody wants what is sent with it."""
        return self._pickles.get(number, b"")

    def forget(self, number: int) -> None:
        """That code will not be asked for again."""
        self._pickles.pop(number, None)

    def _renewed(self, function: Callable[..., Any], before: Code | None) -> Code:
        pickled = reduction.dumps(function)
        if before is not None and self._pickles.get(before.number) == pickled:
            return Code(before.number, epochs.epoch, before.paces)
        paces = before.paces if before is not None and before.number == ABSENT else Paces()
        return Code(self._add(pickled), epochs.epoch, paces)

    def _lasting(self, function: Any) -> Code:
        """What is known of that in a callable which lives on when the callable is made anew for every call."""
        for name in ("__func__", "func"):  # of methods and of partials
            function = getattr(function, name, function)
        key = function if is_plain(function) else type(function)
        code = self._known.get(key)
        if code is None:
            code = self._known[key] = Code(ABSENT, -1, Paces())
        return code

    def _add(self, pickled: bytes) -> int:
        number = next(self._numbers)
        self._pickles[number] = pickled
        return number


def is_plain(function: Callable[..., Any]) -> bool:
    """Whether it is a function without a state of its own."""
    if isinstance(function, types.BuiltinFunctionType):
        return isinstance(function.__self__, types.ModuleType)
    return isinstance(function, types.FunctionType | type)
