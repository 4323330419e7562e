"""The options of remote functions: Ray's names, checked, as what the scheduler understands."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from fibernb.errors import ConfigError, FibernbError
from fibernb.model import DEFAULT_OPTIONS, MAX_RETURNS, Resources, TaskOptions

UNLIMITED_RETRIES: Final = 2**31 - 1

LATER: Final[dict[str, str]] = {
    "runtime_env": "environments of single tasks",
    "scheduling_strategy": "scheduling strategies",
    "max_restarts": "actors",
    "max_task_retries": "actors",
    "max_concurrency": "actors",
    "concurrency_groups": "actors",
    "lifetime": "actors",
    "get_if_exists": "actors",
    "namespace": "actors",
}


def parse(given: Mapping[str, Any], base: TaskOptions = DEFAULT_OPTIONS) -> TaskOptions:
    """``base`` with what is given, by Ray's names.

    Raises `ConfigError` for a name that does not exist or a value that cannot be, `FibernbError` for what FiberNB
    does not have yet.
    """
    fields: dict[str, Any] = {}
    resources: dict[str, Any] = {
        "milli_cpus": base.resources.milli_cpus,
        "milli_gpus": base.resources.milli_gpus,
        "memory_bytes": base.resources.memory_bytes,
        "custom": base.resources.custom,
    }
    for name, value in given.items():
        target, parser = _known(name)
        (resources if target in resources else fields)[target] = parser(name, value)
    values: dict[str, Any] = {
        "name": base.name,
        "num_returns": base.num_returns,
        "max_retries": base.max_retries,
        "retry_exceptions": base.retry_exceptions,
    }
    return TaskOptions(resources=Resources(**resources), **(values | fields))


def _known(name: str) -> tuple[str, Callable[[str, Any], Any]]:
    if name in LATER:
        raise FibernbError(f"option {name!r} belongs to {LATER[name]}, which this version of FiberNB does not have")
    if name not in PARSERS:
        raise ConfigError(f"there is no option {name!r}. {_nearest(name)}")
    return PARSERS[name]


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, [*PARSERS, *LATER], n=1)
    return f"Did you mean {close[0]!r}?" if close else f"The options are: {', '.join(PARSERS)}."


def _misfit(name: str, value: object, accepts: str) -> ConfigError:
    return ConfigError(f"{name} cannot be {value!r}. It accepts {accepts}.")


def amount(name: str, value: Any) -> float:
    """A number, 0 or more; None counts as 0."""
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value < 0:
        raise _misfit(name, value, "a number, 0 or more")
    return value


def _finite(name: str, value: Any) -> float:
    if amount(name, value) == math.inf:
        raise _misfit(name, value, "a finite number, 0 or more")
    return amount(name, value)


def _milli(name: str, value: Any) -> int:
    return round(_finite(name, value) * 1000)


def _bytes(name: str, value: Any) -> int:
    return math.ceil(_finite(name, value))


def _custom(name: str, value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _misfit(name, value, "a dict of names with amounts")
    for key, option in (("CPU", "num_cpus"), ("GPU", "num_gpus")):
        if key in value:
            raise ConfigError(f"{name} cannot hold {key!r}: use {option}")
    return {key: _milli(f"{name}[{key!r}]", item) for key, item in value.items()}


def _returns(name: str, value: Any) -> int:
    if value in ("streaming", "dynamic"):
        raise FibernbError(f"{name}={value!r} belongs to streaming tasks, which this version of FiberNB does not have")
    return whole(name, value, most=MAX_RETURNS)


def whole(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """A whole number within bounds; `ConfigError` for anything else."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not fits or (most is not None and value > most):
        bounds = f"{least} or more" if most is None else f"{least} to {most}"
        raise _misfit(name, value, f"a whole number, {bounds}")
    return int(value)


def _retries(name: str, value: Any) -> int:
    if value == -1 and not isinstance(value, bool):
        return UNLIMITED_RETRIES
    if isinstance(value, bool) or not isinstance(value, int) or value < -1:
        raise _misfit(name, value, "a whole number, 0 or more, or -1 for no limit")
    return value


def _switch(name: str, value: Any) -> bool:
    if isinstance(value, list | tuple):
        raise FibernbError(f"{name} with a list of exceptions is not in this version of FiberNB: use True for all")
    if not isinstance(value, bool):
        raise _misfit(name, value, "True or False")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _misfit(name, value, "a str")
    return value


PARSERS: Final[dict[str, tuple[str, Callable[[str, Any], Any]]]] = {
    "num_cpus": ("milli_cpus", _milli),
    "num_gpus": ("milli_gpus", _milli),
    "memory": ("memory_bytes", _bytes),
    "resources": ("custom", _custom),
    "num_returns": ("num_returns", _returns),
    "max_retries": ("max_retries", _retries),
    "retry_exceptions": ("retry_exceptions", _switch),
    "name": ("name", _text),
}
