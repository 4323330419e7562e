"""Actors: what ``@fibernb.remote`` makes of a class, and how actors are found and ended."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from fibernb import serialize
from fibernb.client import current, job, options, strategies
from fibernb.client.actor_options import ASYNC_CONCURRENCY, ActorSettings, parse_actor
from fibernb.client.code import Code
from fibernb.client.functions import inputs_of
from fibernb.client.handles import (
    ActorHandle,
    about_class,
    check_handle,
    decode_about,
    encode_about,
    handle_of,
    is_async,
    session_of,
)
from fibernb.client.refs import ObjectRef
from fibernb.client.session import Session
from fibernb.client.signatures import Signature, parameters_of
from fibernb.errors import ConfigError
from fibernb.model import ActorOptions


class ActorClass:
    """A class whose instances live on the cluster.

    ``Class.remote(*args)`` makes one and returns its `ActorHandle` at once; ``Class.options(...)`` gives the same class
    with other options, by Ray's names. Constants and class methods are those of the class.
    """

    def __init__(self, class_: type, settings: ActorSettings | None = None, *, keeps: tuple[Any, ...] = ()) -> None:
        self._class = class_
        self._settings = settings or ActorSettings()
        self._keeps = keeps  # placement groups that the options name
        self._code = Code(class_)
        self._signature: Signature | None = None
        self._told: bytes | None = None  # what handles need to know
        self.__name__ = class_.__name__
        self.__qualname__ = class_.__qualname__
        self.__module__ = class_.__module__
        self.__doc__ = class_.__doc__

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Make an actor: an instance in an engine of its own, constructed with these arguments.

        Raises `TypeError` when the arguments do not fit, `ConfigError` when its name is taken. What its constructor
        raises, the first call of a method tells.
        """
        (self._signature or self._sign()).check(args, kwargs)
        session = current.session or current.require()
        actor_options = self._options()
        if self._settings.replace:
            _end_namesake(session, actor_options)
        definition = self._code.current()
        session.define(definition)
        packed, deps = serialize.pack_call(args, kwargs, ObjectRef, session.store)
        actor, about = session.create_actor(
            definition.digest,
            packed,
            inputs_of(args, kwargs, deps),
            options=actor_options,
            about=self._about(),
            get_if_exists=self._settings.get_if_exists,
        )
        return ActorHandle(actor, decode_about(about))

    def options(self, **given: Any) -> ActorClass:
        """The same class with other options.

        Raises `ConfigError` for names or values that cannot be.
        """
        settings = parse_actor(given, self._settings)
        other = ActorClass(self._class, settings, keeps=strategies.keeps_of(given) or self._keeps)
        other._code = self._code
        return other

    def _options(self) -> ActorOptions:
        settings = self._settings
        runs_loop = is_async(self._class)
        namespace = job.current().namespace if settings.namespace is None else settings.namespace
        return msgspec.structs.replace(
            job.fitted(settings.options),
            class_name=self._class.__name__,
            namespace=namespace,
            is_async=runs_loop,
            max_concurrency=settings.concurrency or (ASYNC_CONCURRENCY if runs_loop else 1),
        )

    def _about(self) -> bytes:
        if self._told is None:
            self._told = encode_about(about_class(self._class, self._settings))
        return self._told

    def _sign(self) -> Signature:
        signature = self._signature = Signature(self._class.__name__, parameters_of(self._class))
        return signature

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        found = getattr(self._class, name)
        if inspect.isfunction(found):  # to be found here, it would be taken for one that can be imported
            raise AttributeError(f"{name} is a method of actors: make one with {self._class.__name__}.remote(...)")
        return found

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        name = self._class.__name__
        raise TypeError(f"{name} is an actor class: call {name}.remote(...) to make an actor")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        name = self._class.__name__
        raise TypeError(
            f"{name} is an actor class, which cannot be inherited from: keep the plain class, derive from that, "
            f"and make each remote: Remote{name} = fibernb.remote({name})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._class, self._settings, self._keeps)

    def __repr__(self) -> str:
        return f"<actor class {self._class.__name__}>"


def _again(class_: type, settings: ActorSettings, keeps: tuple[Any, ...]) -> ActorClass:
    """Called while unpickling."""
    return ActorClass(class_, settings, keeps=keeps)


def _end_namesake(session: Session, successor: ActorOptions) -> None:
    """End the actor that has this name, if there is one."""
    found = session.find_actor(successor.name, successor.namespace)
    if found is not None:
        session.kill_actor(session.borrow(found[0]), no_restart=True)


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """The handle of the actor that has this name.

    Parameters
    ----------
    namespace : where the name holds; None: that of `fibernb.init`.

    Raises `ConfigError` (a ValueError) when there is none.
    """
    if not options.text("name", name):
        raise ConfigError(f"get_actor takes the name of an actor, not {name!r}")
    space = job.current().namespace if namespace is None else namespace
    found = (current.session or current.require()).find_actor(name, space)
    if found is None:
        within = f" in namespace {space!r}" if space else ""
        raise ConfigError(
            f"there is no actor named {name!r}{within}: it was never made with options(name={name!r}), or has ended. "
            "fibernb.util.list_named_actors() tells which there are"
        )
    return handle_of(*found)


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """End an actor at once: its process is killed, its unfinished calls fail with `ActorDied`.

    Parameters
    ----------
    no_restart : False lets it start again if its ``max_restarts`` allows.
    """
    ref = check_handle("kill", actor)._actor_ref
    session_of(ref).kill_actor(ref, no_restart)
