"""Handles of actors: what calls their methods, in any process that has one."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from fibernb import serialize
from fibernb.client import actor_options, current
from fibernb.client.functions import inputs_of
from fibernb.client.pending import PendingCalls
from fibernb.client.refs import ActorGroup, ObjectRef
from fibernb.client.session import Session
from fibernb.client.signatures import Parameters, Signature, parameters_of
from fibernb.client.streams import ObjectRefGenerator
from fibernb.core.messages import DefineFunction
from fibernb.engine.actors import Method
from fibernb.errors import ConfigError, NotConnected
from fibernb.model import STREAMING, ObjectId, Struct, TaskId, TaskOptions
from fibernb.serialize import Packed


class MethodAbout(Struct, frozen=True, kw_only=True):
    """What a handle knows of a method."""

    options: TaskOptions
    group: str = ""  # of concurrency
    parameters: Parameters | None = None  # without ``self``


class ActorAbout(Struct, frozen=True, kw_only=True):
    """What a handle knows of its actor; travels with it."""

    class_name: str
    methods: dict[str, MethodAbout]
    groups: tuple[str, ...] = ()
    max_pending_calls: int = 0  # 0: no limit


BUILT_IN: Final[dict[str, Parameters | None]] = {  # methods that every actor has, by Ray's names
    "__ray_ready__": (),
    "__ray_terminate__": (),
    "__ray_call__": None,
}


def about_class(class_: type, settings: actor_options.ActorSettings) -> ActorAbout:
    """What handles of a class's actors need to know.

    Raises `ConfigError` when a method names a concurrency group that the actor does not have.
    """
    groups = settings.options.groups
    methods = {name: _about_method(class_, name, function, settings) for name, function in methods_of(class_).items()}
    for name, each in methods.items():
        _check_group(f"{class_.__name__}.{name}", each.group, groups)
    return ActorAbout(
        class_name=class_.__name__,
        methods=methods | _built_in(class_.__name__),
        groups=tuple(groups),
        max_pending_calls=settings.max_pending_calls,
    )


def methods_of(class_: type) -> dict[str, Callable[..., Any]]:
    """The methods of a class by name, inherited ones as well."""
    found: dict[str, Callable[..., Any]] = {}
    for name in dir(class_):
        raw = inspect.getattr_static(class_, name)
        if isinstance(raw, staticmethod | classmethod):
            found[name] = getattr(class_, name)
        elif callable(raw) and not inspect.isclass(raw) and not _is_of_object(name, raw):
            found[name] = raw
    return found


def is_async(class_: type) -> bool:
    """Whether the actor runs an event loop: one of its methods is a coroutine or an asynchronous generator."""
    return any(
        inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
        for method in methods_of(class_).values()
    )


def _is_of_object(name: str, raw: Any) -> bool:
    return name in ("__init__", "__new__", "__class__") or raw is inspect.getattr_static(object, name, None)


def _about_method(
    class_: type, name: str, function: Callable[..., Any], settings: actor_options.ActorSettings
) -> MethodAbout:
    given: Mapping[str, Any] = getattr(function, actor_options.METHOD_MARK, {})
    base = TaskOptions(name=f"{class_.__name__}.{name}", max_retries=settings.max_task_retries)
    options = actor_options.parse_method(given, base)
    generates = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if generates and options.num_returns == 1:
        options = msgspec.structs.replace(options, num_returns=STREAMING)
    bound = isinstance(inspect.getattr_static(class_, name), staticmethod | classmethod)
    return MethodAbout(
        options=options,
        group=actor_options.group_of(given),
        parameters=parameters_of(function, skip_first=not bound),
    )


def _built_in(class_name: str) -> dict[str, MethodAbout]:
    return {
        name: MethodAbout(options=TaskOptions(name=f"{class_name}.{name}", max_retries=0), parameters=parameters)
        for name, parameters in BUILT_IN.items()
    }


def _check_group(name: str, group: str, groups: Mapping[str, int] | tuple[str, ...]) -> None:
    if group and group not in groups:
        known = ", ".join(groups) or "none"
        raise ConfigError(
            f"{name}: the actor has no concurrency group {group!r} (it has: {known}). "
            f"Name it in the options of the class: concurrency_groups={{{group!r}: 2}}"
        )


# ---- methods ------------------------------------------------------------------------------------------------


class ActorMethod:
    """A method of an actor: ``actor.method.remote(...)`` submits a call.

    It holds on to the actor, not to its handle, so that neither keeps the other from being collected.
    """

    __slots__ = (
        "_about", "_actor", "_class", "_code", "_group", "_name", "_parent", "_pending", "_plain", "_session",
        "_signature",
    )  # fmt: skip

    def __init__(self, actor: ObjectRef, of_class: ActorAbout, name: str, about: MethodAbout) -> None:
        self._actor = actor
        self._class = of_class
        self._name = name
        self._about = about
        self._plain = about.options.num_returns == 1
        self._code = defined_method(f"{of_class.class_name}.{name}", name, about.group)
        self._signature = Signature(about.options.name, about.parameters)
        self._pending = PendingCalls.of(actor, of_class.max_pending_calls)
        self._session: Session = session_of(actor)
        self._parent: TaskId | None = None
        self._group: ActorGroup | None = None

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Submit a call; what one caller submits runs in that order.

        Gives an `ObjectRef`; a list of them for ``num_returns`` above 1; an `ObjectRefGenerator` for "streaming"; None
        for 0. Raises `TypeError` when the arguments do not fit, `SerializationError` when one cannot be pickled.
        """
        session = self._session
        self._signature.check(args, kwargs)
        packed, deps = serialize.pack_call(args, kwargs, ObjectRef, session.store)
        group = self._group
        if group is None or session.current_task is not None:
            group = self._renew()
        if self._plain and not deps and self._pending is None:
            return session.submit(group, packed)
        return self._given(self._submit(group, packed, inputs_of(args, kwargs, deps)))

    def _submit(
        self, group: ActorGroup, packed: Packed, inputs: Sequence[ObjectRef]
    ) -> list[ObjectRef] | ObjectRefGenerator:
        pending = self._pending
        if pending is not None:
            pending.check(self._about.options.name)
        refs = self._session.submit_call(self._actor, group, packed, inputs)
        if pending is not None:
            pending.note(refs)
        return refs

    def _given(self, refs: list[ObjectRef] | ObjectRefGenerator) -> Any:
        """What the caller gets for the references of a call."""
        if isinstance(refs, list):
            return refs[0] if self._plain else (refs or None)
        return refs

    def options(self, **given: Any) -> ActorMethod:
        """The same method with other options: num_returns, concurrency_group, max_task_retries, retry_exceptions, name.

        Raises `ConfigError` for names or values that cannot be.
        """
        about = MethodAbout(
            options=actor_options.parse_method(given, self._about.options),
            group=actor_options.group_of(given, self._about.group),
            parameters=self._about.parameters,
        )
        _check_group(self._about.options.name, about.group, self._class.groups)
        return ActorMethod(self._actor, self._class, self._name, about)

    def _renew(self) -> ActorGroup:
        parent = self._session.parent()
        group = self._group
        if group is None or parent != self._parent:
            self._session.define(self._code)
            group = self._group = ActorGroup(self._code.digest, self._about.options, parent, self._actor.id)
            self._parent = parent
        return group

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise TypeError(f"{self._name} is a method of an actor: call actor.{self._name}.remote(...) and get its value")

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorMethod, (self._actor, self._class, self._name, self._about)

    def __repr__(self) -> str:
        return f"<method {self._about.options.name} of actor {self._actor.id:#x}>"


@lru_cache(1024)
def defined_method(title: str, name: str, group: str) -> DefineFunction:
    """What calls of a method name as their function.

    It is so short that it is its own digest, with the title behind it that people see.
    """
    pickled = serialize.dumps(Method(name, group))
    return DefineFunction(digest=pickled + title.encode(), code=pickled, name=title)


def session_of(actor: ObjectRef) -> Session:
    """The session that an actor's reference belongs to."""
    session = actor.session
    assert isinstance(session, Session)
    return session


# ---- handles ------------------------------------------------------------------------------------------------


class ActorHandle:
    """An actor, as its users see it: ``actor.method.remote(...)``.

    Handles may be passed to tasks and other actors, and returned from them. The actor ends when its last handle is
    gone and its calls are done, unless it is detached.
    """

    def __init__(self, actor: ObjectRef, about: ActorAbout) -> None:
        self._actor_ref = actor
        self._actor_about = about

    def __getattr__(self, name: str) -> ActorMethod:
        if name.startswith("_actor_"):  # while unpickling
            raise AttributeError(name)
        about = self._actor_about.methods.get(name)
        if about is None:
            raise AttributeError(_no_such_method(self._actor_about, name))
        method = ActorMethod(self._actor_ref, self._actor_about, name, about)
        self.__dict__[name] = method
        return method

    def __dir__(self) -> list[str]:
        return sorted(self._actor_about.methods)

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (self._actor_ref, encode_about(self._actor_about))

    def __copy__(self) -> ActorHandle:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ActorHandle:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and self._actor_ref.id == other._actor_ref.id

    def __hash__(self) -> int:
        return hash(self._actor_ref.id)

    def __repr__(self) -> str:
        return f"Actor({self._actor_about.class_name}, {self._actor_ref.id:#x})"


def encode_about(about: ActorAbout) -> bytes:
    """What travels of it."""
    return msgspec.msgpack.encode(about)


@lru_cache(256)
def decode_about(data: bytes) -> ActorAbout:
    """What `encode_about` made."""
    return msgspec.msgpack.decode(data, type=ActorAbout)


def handle_of(actor_id: ObjectId, about: bytes) -> ActorHandle:
    """A handle of an actor that this process has not made."""
    return ActorHandle(current.require().borrow(actor_id), decode_about(about))


def _revive(actor: ObjectRef, about: bytes) -> ActorHandle:
    """Called while unpickling."""
    return ActorHandle(actor, decode_about(about))


def check_handle(name: str, given: object) -> ActorHandle:
    """The handle that was given. Raises `TypeError` for anything else."""
    if not isinstance(given, ActorHandle):
        raise TypeError(f"{name} takes the handle of an actor, not {type(given).__name__}: {given!r:.80}")
    if given._actor_ref.session is not current.require():
        raise NotConnected(f"{given!r} belongs to another cluster, or to one that has ended")
    return given


def _no_such_method(about: ActorAbout, name: str) -> str:
    known = [method for method in about.methods if method not in BUILT_IN]
    close = difflib.get_close_matches(name, known, n=1)
    hint = (
        f"Did you mean {close[0]!r}?"
        if close
        else "State is read by a method that returns it; an actor has the methods that its class had when it was made."
    )
    return f"actors of {about.class_name} have no method {name!r}. {hint}"
