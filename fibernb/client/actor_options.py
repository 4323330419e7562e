"""The options of actors and of their methods: Ray's names, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fibernb.client import options
from fibernb.client.options import Fields, Parser
from fibernb.errors import ConfigError
from fibernb.model import DEFAULT_OPTIONS, ActorOptions, TaskOptions

ASYNC_CONCURRENCY: Final = 1000  # calls at a time of an asyncio actor that says nothing
METHOD_MARK: Final = "__fibernb_method__"  # attribute of a method that `method` has decorated
UNLIMITED_RESTARTS: Final = -1


class ActorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the options of an actor class say, beyond what the scheduler is told."""

    options: ActorOptions = ActorOptions()
    concurrency: int | None = None  # None: 1, or many for an asyncio actor
    namespace: str | None = None  # None: that of the job
    get_if_exists: bool = False
    replace: bool = False  # end the one that has the name
    max_task_retries: int = 0
    max_pending_calls: int = 0  # 0: no limit


def parse_actor(given: Mapping[str, Any], base: ActorSettings | None = None) -> ActorSettings:
    """``base`` with what is given, by Ray's names.

    Raises `ConfigError` for a name that does not exist, a value that cannot be, or values that do not go together.
    """
    base = base or ActorSettings()
    own = {name: value for name, value in given.items() if name in OWN}
    fields = {target: parser(name, own[name]) for name, (target, parser) in OWN.items() if name in own}
    rest = {name: value for name, value in given.items() if name not in own}
    settings = msgspec.structs.replace(
        base,
        options=ActorOptions(**options.task_fields(rest, base.options, PARSERS, "actors")),
        **fields,
    )
    _check_together(settings)
    return settings


def parse_method(given: Mapping[str, Any], base: TaskOptions = DEFAULT_OPTIONS) -> TaskOptions:
    """The options of calls of a method; its concurrency group is read by `group_of`."""
    rest = {name: value for name, value in given.items() if name != "concurrency_group"}
    return TaskOptions(**options.task_fields(rest, base, METHOD_PARSERS, "methods of actors"))


def group_of(given: Mapping[str, Any], default: str = "") -> str:
    """The concurrency group that options name; empty: the default one."""
    return options.text("concurrency_group", given.get("concurrency_group", default))


def method(*args: Any, **given: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options of one method of an actor class, as a decorator.

    Parameters
    ----------
    num_returns : how many values it returns, or "streaming".
    concurrency_group : the group of threads or coroutines that it runs in.
    max_task_retries : how often a call is run again after the actor was restarted.
    retry_exceptions : exceptions for which it is run again: True, or a list of classes.
    """
    if args or not given:
        raise TypeError("method takes options by name: @fibernb.method(num_returns=2)")
    parse_method(given)
    group_of(given)

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, METHOD_MARK, dict(given))
        return function

    return mark


def _check_together(settings: ActorSettings) -> None:
    name = settings.options.name
    for option in ("get_if_exists", "replace"):
        if getattr(settings, option) and not name:
            raise ConfigError(f"{option}=True needs a name: options(name='...', {option}=True)")
    if settings.get_if_exists and settings.replace:
        raise ConfigError("get_if_exists takes the actor that has the name and replace ends it: choose one of them")


# ---- values -----------------------------------------------------------------------------------------------


def _restarts(name: str, value: Any) -> int:
    return UNLIMITED_RESTARTS if options.times(name, value) == options.UNLIMITED_RETRIES else value


def _concurrency(name: str, value: Any) -> int | None:
    return None if value is None else options.whole(name, value, 1)


def _groups(name: str, value: Any) -> dict[str, int]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) and key for key in value):
        raise options.misfit(name, value, "a dict of names with how many calls run at a time")
    return {key: options.whole(f"{name}[{key!r}]", count, 1) for key, count in value.items()}


def _lifetime(name: str, value: Any) -> bool:
    if value not in (None, "detached", "non_detached"):
        raise options.misfit(name, value, "'detached', 'non_detached' or None")
    return bool(value == "detached")


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise options.misfit(name, value, "True or False")
    return value


def _name(name: str, value: Any) -> str:
    if value == "":
        raise options.misfit(name, value, "a str that is not empty")
    return options.text(name, value)


def _namespace(name: str, value: Any) -> str | None:
    return None if value is None else _name(name, value)


def _pending(name: str, value: Any) -> int:
    return 0 if value in (None, -1) else options.whole(name, value, 1)


def _field(target: str, parse_value: Callable[[str, Any], Any]) -> Parser:
    def parse(name: str, value: Any) -> Fields:
        return {target: parse_value(name, value)}

    return parse


OWN: Final[dict[str, tuple[str, Callable[[str, Any], Any]]]] = {
    "max_concurrency": ("concurrency", _concurrency),
    "namespace": ("namespace", _namespace),
    "get_if_exists": ("get_if_exists", _switch),
    "replace": ("replace", _switch),
    "max_task_retries": ("max_task_retries", options.times),
    "max_pending_calls": ("max_pending_calls", _pending),
}
PARSERS: Final[dict[str, Any]] = {
    **options.COMMON,
    "name": _field("name", _name),
    "lifetime": _field("detached", _lifetime),
    "max_restarts": _field("max_restarts", _restarts),
    "concurrency_groups": _field("groups", _groups),
    **dict.fromkeys(OWN),  # read before; here for the nearest name
}
METHOD_PARSERS: Final[dict[str, Any]] = {
    **options.CALLS,
    "name": options.COMMON["name"],
    "max_task_retries": _field("max_retries", options.times),
}
