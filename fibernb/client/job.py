"""What holds for all tasks and actors of this process: the namespace of their names, and their environment.

``fibernb.init`` sets it; on an engine it is that of the task or the actor that runs there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from fibernb.client import environments, options
from fibernb.client.code import next_epoch
from fibernb.engine import context
from fibernb.errors import ConfigError
from fibernb.model import ActorOptions, Struct, TaskOptions

Given = TypeVar("Given", TaskOptions, ActorOptions)


class Job(Struct, frozen=True, kw_only=True):
    namespace: str = ""
    environment: str = ""  # JSON


_current = Job()


def use(job: Job) -> None:
    """From now on this holds."""
    global _current
    _current = job
    next_epoch()


def current() -> Job:
    """What holds now."""
    engine = context.current()
    if engine is None:
        return _current
    return Job(namespace=engine.namespace or _current.namespace, environment=engine.environment or _current.environment)


def configured(namespace: str | None, environment: Mapping[str, Any] | None) -> Job | None:
    """What this process has said, changed by what is not None; None when nothing is.

    Raises `ConfigError` for a namespace or an environment that cannot be.
    """
    if namespace is None and environment is None:
        return None
    if namespace is not None and not options.text("namespace", namespace):
        raise ConfigError(f"namespace cannot be {namespace!r}. It accepts a str that is not empty.")
    return Job(
        namespace=_current.namespace if namespace is None else namespace,
        environment=_current.environment if environment is None else environments.parse(environment),
    )


def fitted(given: Given) -> Given:
    """The options of a task or an actor as they are here: with the job's environment, and in the placement group of
    the task that starts it, if that one keeps what it starts there.
    """
    engine = context.current()
    environment = _environment_of(given.environment)
    if engine is not None and engine.captures and not (given.placement or given.node or given.spread):
        return msgspec.structs.replace(
            given, environment=environment, placement=engine.placement, bundle=-1, captures=True
        )
    return given if environment == given.environment else msgspec.structs.replace(given, environment=environment)


def _environment_of(own: str) -> str:
    engine = context.current()
    inherited = (engine.environment if engine is not None else "") or _current.environment
    return environments.merged(inherited, own) if inherited else own
