"""The options of remote functions: Ray's names, checked, as what the scheduler understands."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from fibernb import serialize
from fibernb.client import environments, strategies
from fibernb.errors import ConfigError
from fibernb.model import DEFAULT_OPTIONS, MAX_RETURNS, STREAMING, Resources, TaskOptions

UNLIMITED_RETRIES: Final = 2**31 - 1
DYNAMIC: Final = "dynamic"
IGNORED: Final = ("enable_task_events", "_metadata", "_labels")  # Ray's, and change nothing here
BUNDLE_INDEX: Final = "placement_group_bundle_index"  # read together with the group, as is
CAPTURE: Final = "placement_group_capture_child_tasks"

Fields: TypeAlias = dict[str, Any]
Parser: TypeAlias = Callable[[str, Any], Fields]


def parse(given: Mapping[str, Any], base: TaskOptions = DEFAULT_OPTIONS) -> TaskOptions:
    """``base`` with what is given, by Ray's names.

    Raises `ConfigError` for a name that does not exist or a value that cannot be.
    """
    return TaskOptions(**task_fields(given, base, PARSERS, "remote functions"))


def task_fields(given: Mapping[str, Any], base: Any, parsers: Mapping[str, Parser], whose: str) -> Fields:
    """The fields of ``base`` (options of tasks or actors), changed by what is given."""
    fields: Fields = {name: getattr(base, name) for name in base.__struct_fields__}
    resources: Fields = {name: getattr(base.resources, name) for name in base.resources.__struct_fields__}
    for name, value in given.items():
        if name in IGNORED:
            continue
        for target, parsed in known(name, parsers, whose)(name, value).items():
            (resources if target in resources else fields)[target] = parsed
    if "placement_group" in given:
        captures = bool(given.get(CAPTURE))
        fields |= strategies.group_fields(given["placement_group"], given.get(BUNDLE_INDEX, -1), captures)
    return fields | {"resources": Resources(**with_accelerator(resources, given.get("accelerator_type")))}


def with_accelerator(resources: Fields, kind: Any) -> Fields:
    """Resources with the mark that stands for a kind of accelerator, as Ray has it."""
    if kind is None:
        return resources
    return resources | {"custom": resources["custom"] | {f"accelerator_type:{text('accelerator_type', kind)}": 1}}


def known(name: str, parsers: Mapping[str, Any], whose: str) -> Any:
    """The parser of an option. Raises `ConfigError` with the nearest when there is none."""
    if name not in parsers:
        raise ConfigError(f"{whose} have no option {name!r}. {nearest(name, parsers)}")
    return parsers[name]


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint: the name that may have been meant, or all that there are."""
    close = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"The options are: {', '.join(names)}."


def misfit(name: str, value: object, accepts: str) -> ConfigError:
    """The error for a value that cannot be."""
    return ConfigError(f"{name} cannot be {value!r}. It accepts {accepts}.")


# ---- values -----------------------------------------------------------------------------------------------


def amount(name: str, value: Any) -> float:
    """A number, 0 or more; None counts as 0."""
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value < 0:
        raise misfit(name, value, "a number, 0 or more")
    return value


def _finite(name: str, value: Any) -> float:
    if amount(name, value) == math.inf:
        raise misfit(name, value, "a finite number, 0 or more")
    return amount(name, value)


def milli(name: str, value: Any) -> int:
    """An amount in thousandths."""
    return round(_finite(name, value) * 1000)


def size_bytes(name: str, value: Any) -> int:
    """An amount of bytes."""
    return math.ceil(_finite(name, value))


def custom(name: str, value: Any) -> dict[str, int]:
    """Named amounts in thousandths."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise misfit(name, value, "a dict of names with amounts")
    for key, option in (("CPU", "num_cpus"), ("GPU", "num_gpus"), ("memory", "memory")):
        if key in value:
            raise ConfigError(f"{name} cannot hold {key!r}: use {option}")
    return {key: milli(f"{name}[{key!r}]", item) for key, item in value.items()}


def returns(name: str, value: Any) -> int:
    """The number of values of a task; `STREAMING` for a generator."""
    if value is None or value == DYNAMIC:
        return 1
    if value == "streaming":
        return STREAMING
    if isinstance(value, str):
        raise misfit(name, value, f"a whole number, 0 to {MAX_RETURNS}, 'streaming' or 'dynamic'")
    return whole(name, value, most=MAX_RETURNS)


def whole(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """A whole number within bounds; `ConfigError` for anything else."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not fits or (most is not None and value > most):
        bounds = f"{least} or more" if most is None else f"{least} to {most}"
        raise misfit(name, value, f"a whole number, {bounds}")
    return int(value)


def times(name: str, value: Any) -> int:
    """How often something may be done again; -1: without end."""
    if value == -1 and not isinstance(value, bool):
        return UNLIMITED_RETRIES
    if isinstance(value, bool) or not isinstance(value, int) or value < -1:
        raise misfit(name, value, "a whole number, 0 or more, or -1 for no limit")
    return min(value, UNLIMITED_RETRIES)


def ahead(name: str, value: Any) -> int:
    """How many items a generator may be ahead of its consumer; 0: the engine's default. Ray's -1 means that too."""
    return 0 if value in (None, -1) else whole(name, value, 1)


def retried(name: str, value: Any) -> bool | bytes:
    """Which exceptions a task is tried again for: all, none, or a pickled tuple of classes."""
    if value is None or isinstance(value, bool):
        return bool(value)
    accepts = "True, False or a list of exception classes"
    if not isinstance(value, list | tuple):
        raise misfit(name, value, accepts)
    for kind in value:
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise misfit(name, value, accepts)
    return serialize.dumps(tuple(value), name) if value else False


def text(name: str, value: Any) -> str:
    """A str; None counts as empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise misfit(name, value, "a str")
    return value


def _one(target: str, parse_value: Callable[[str, Any], Any]) -> Parser:
    """The parser of an option that sets one field."""
    return lambda name, value: {target: parse_value(name, value)}


def _elsewhere(name: str, value: Any) -> Fields:  # noqa: ARG001  a `Parser`
    """The parser of an option that `task_fields` reads itself."""
    return {}


def _environment(name: str, value: Any) -> str:
    return environments.parse(value, name)


COMMON: Final[dict[str, Parser]] = {
    "num_cpus": _one("milli_cpus", milli),
    "num_gpus": _one("milli_gpus", milli),
    "memory": _one("memory_bytes", size_bytes),
    "resources": _one("custom", custom),
    "accelerator_type": _elsewhere,
    "runtime_env": _one("environment", _environment),
    "scheduling_strategy": strategies.strategy_fields,
    "placement_group": _elsewhere,
    BUNDLE_INDEX: _elsewhere,
    CAPTURE: _elsewhere,
    "name": _one("name", text),
}
CALLS: Final[dict[str, Parser]] = {
    "num_returns": _one("num_returns", returns),
    "retry_exceptions": _one("retry_exceptions", retried),
    "_generator_backpressure_num_objects": _one("backpressure", ahead),
}
PARSERS: Final[dict[str, Parser]] = {
    **COMMON,
    **CALLS,
    "max_retries": _one("max_retries", times),
    "max_calls": _one("max_calls", whole),
}
