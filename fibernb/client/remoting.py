"""``fibernb.remote``: functions become remote functions, classes become actor classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, overload

from fibernb.client import options, strategies
from fibernb.client.actor_options import parse_actor
from fibernb.client.actors import ActorClass
from fibernb.client.functions import RemoteFunction


@overload
def remote(target: Callable[..., Any], /) -> Any: ...


@overload
def remote(**given: Any) -> Callable[[Callable[..., Any]], Any]: ...


def remote(*args: Any, **given: Any) -> Any:
    """Make a function or a class remote: as ``@remote``, ``@remote(num_cpus=2)`` or ``remote(function)``.

    Raises `ConfigError` for options that cannot be, `TypeError` for what is neither a function nor a class.
    """
    if len(args) == 1 and not given and callable(args[0]):
        return _made_remote(args[0], given)
    if args:
        raise TypeError("remote takes one function or class, or options by name: @remote, @remote(num_cpus=2)")
    return lambda target: _made_remote(target, given)


def _made_remote(target: Callable[..., Any], given: dict[str, Any]) -> RemoteFunction | ActorClass:
    if isinstance(target, RemoteFunction | ActorClass):
        raise TypeError(f"{target!r} is remote already: give it other options with .options(...)")
    keeps = strategies.keeps_of(given)
    if inspect.isclass(target):
        return ActorClass(target, parse_actor(given), keeps=keeps)
    if not callable(target):
        raise TypeError(f"remote takes a function or a class, not {type(target).__name__}")
    dynamic = given.get("num_returns") == options.DYNAMIC
    return RemoteFunction(target, options.parse(given), dynamic=dynamic, keeps=keeps)
