"""Whether arguments fit a function, told where the call stands and not later, when it has travelled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Parameters: TypeAlias = tuple[tuple[str, int, bool], ...]  # name, kind and whether there is a default

UNBOUNDED: Final = 2**31
_KINDS: Final = {int(kind): kind for kind in inspect._ParameterKind}


def parameters_of(function: Callable[..., Any], skip_first: bool = False) -> Parameters | None:
    """The parameters of a function; None when it does not tell them, as some built-in ones.

    ``skip_first``: without ``self``.
    """
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if skip_first and found and found[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        found = found[1:]
    return tuple((each.name, int(each.kind), each.default is not inspect.Parameter.empty) for each in found)


class Signature:
    """The parameters of a function, ready to check calls.

    Parameters
    ----------
    name : of the function, for errors.
    """

    def __init__(self, name: str, parameters: Parameters | None) -> None:
        self._name = name
        self._parameters = parameters
        self._least, self._most = _bounds(parameters)

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise the `TypeError` of a direct call if the arguments do not fit."""
        if kwargs or not self._least <= len(args) <= self._most:
            self._bind(args, kwargs)

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._parameters is None:
            return
        try:
            _signature(self._parameters).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None


def _bounds(parameters: Parameters | None) -> tuple[int, int]:
    """How many positional arguments fit when there are no others."""
    if parameters is None:
        return 0, UNBOUNDED
    least = most = 0
    for _, kind, optional in parameters:
        if kind == inspect.Parameter.VAR_POSITIONAL:
            most = UNBOUNDED
        elif kind == inspect.Parameter.KEYWORD_ONLY:
            if not optional:
                return UNBOUNDED, 0
        elif kind != inspect.Parameter.VAR_KEYWORD:
            most += 1
            least += not optional
    return least, most


def _signature(parameters: Parameters) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(name, _KINDS[kind], default=None if optional else inspect.Parameter.empty)
            for name, kind, optional in parameters
        ]
    )
