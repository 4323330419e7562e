"""``@fibernb.meta``: what a function or class needs where it runs in a process of its own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from fibernb.errors import ConfigError

ATTRIBUTE: Final = "__fiber_meta__"  # Fiber's, as are the names in it

T = TypeVar("T")


def meta(*, cpu: float | None = None, memory: float | None = None, gpu: float | None = None) -> Callable[[T], T]:
    """What a function or class needs, as a decorator. Processes and pools that run it ask the cluster for that much.

    Parameters
    ----------
    cpu : cores.
    memory : MiB.
    gpu : GPUs.

    What is not given is as it was: of a class, what its base class says. Raises `ConfigError` for what is no amount,
    and `TypeError` where the decorated thing cannot carry attributes.
    """
    amounts = {"cpu": cpu, "mem": memory, "gpu": gpu}
    given = {name: _amount(name, value) for name, value in amounts.items() if value is not None}

    def mark(target: T) -> T:
        _attach(target, {**needs_of(target), **given})
        return target

    return mark


def needs_of(target: object) -> dict[str, float]:
    """What `meta` says of something that can be called: "cpu", "mem" (MiB) and "gpu", as far as they are given.

    A partial function needs what the function within does, an instance what its class does.
    """
    while isinstance(target, functools.partial) and not hasattr(target, ATTRIBUTE):
        target = target.func
    found = getattr(target, ATTRIBUTE, None)
    return dict(found) if isinstance(found, Mapping) else {}


def _amount(name: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise ConfigError(f"meta: {name} cannot be {value!r}. It accepts a finite number, 0 or more.")
    amount: float = value
    return amount


def _attach(target: object, needs: dict[str, float]) -> None:
    try:
        setattr(target, ATTRIBUTE, needs)
    except (AttributeError, TypeError) as error:
        raise TypeError(
            f"{target!r} cannot carry what meta says of it: decorate the function or class, or wrap it in a function"
        ) from error
