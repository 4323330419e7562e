"""Remote functions: what ``@fibernb.remote`` makes of a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from fibernb import serialize
from fibernb.client import code, current, job, options, strategies
from fibernb.client.code import Code, next_epoch
from fibernb.client.ledger import BATCH_BYTES, BATCH_CALLS
from fibernb.client.refs import Group, ObjectRef
from fibernb.client.session import Session
from fibernb.client.signatures import Signature, parameters_of
from fibernb.errors import ConfigError
from fibernb.model import DEFAULT_OPTIONS, STREAMING, TaskId, TaskOptions

__all__ = ["RemoteFunction", "next_epoch"]

CONSUMED: Final = {STREAMING: "a stream of values", 0: "no value"}


class RemoteFunction:
    """A function whose calls run on the cluster.

    ``f.remote(*args, **kwargs)`` submits a call and returns its `ObjectRef` at once; ``f.options(...)`` gives the same
    function with other options, by Ray's names.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        task_options: TaskOptions = DEFAULT_OPTIONS,
        *,
        dynamic: bool = False,
        keeps: tuple[Any, ...] = (),
    ) -> None:
        self._function = function
        self._options = _fitted(task_options, function, dynamic)
        self._plain = self._options.num_returns == 1
        self._dynamic = dynamic
        self._keeps = keeps  # placement groups that the options name
        self._code = Code(_Dynamic(function) if dynamic else function)
        self._signature: Signature | None = None
        self._session: Session | None = None
        self._epoch = -1
        self._parent: TaskId | None = None
        self._group: Group | None = None
        functools.update_wrapper(self, function, updated=())

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit a call.

        Gives an `ObjectRef`; a list of them for ``num_returns`` above 1; an `ObjectRefGenerator` for "streaming"; None
        for 0. Raises `TypeError` when the arguments do not fit, `SerializationError` when one cannot be pickled.
        """
        session = current.session or current.require()
        group = self._group_for(session)
        (self._signature or self._sign()).check(args, kwargs)
        packed, deps = serialize.pack_call(args, kwargs, ObjectRef, session.store)
        if self._plain and not deps:
            return session.submit(group, packed)
        inputs = inputs_of(args, kwargs, deps)
        if self._options.num_returns == STREAMING:
            return session.submit_stream(group, packed, inputs)
        refs = session.submit_general(group, packed, inputs)
        return refs[0] if self._plain else (refs or None)

    def map(self, items: Iterable[Any]) -> list[ObjectRef]:
        """Submit ``f(item)`` for every item: a reference each, in order. Cheaper than as many ``remote`` calls."""
        return self.starmap((item,) for item in items)

    def starmap(self, arguments: Iterable[tuple[Any, ...]]) -> list[ObjectRef]:
        """Submit ``f(*args)`` for every tuple of arguments: a reference each, in order."""
        if not self._plain:
            count = self._options.num_returns
            raise ConfigError(f"{self._options.name} returns {CONSUMED.get(count, f'{count} values')}: map needs one")
        session = current.session or current.require()
        group = self._group_for(session)
        pack_call, store = serialize.pack_call, session.store
        refs: list[ObjectRef] = []
        batch: list[bytes] = []
        size_bytes = 0
        for args in arguments:
            packed, deps = pack_call(args, {}, ObjectRef, store)
            alone = bool(deps or packed.blocks or packed.refs or len(packed.data) > BATCH_BYTES)
            size_bytes += len(packed.data)
            if alone or len(batch) >= BATCH_CALLS or size_bytes > BATCH_BYTES:
                refs += session.submit_many(group, batch)
                batch, size_bytes = [], len(packed.data)
            if alone:
                refs += session.submit_general(group, packed, inputs_of(args, {}, deps))
                size_bytes = 0
            else:
                batch.append(packed.data)
        return refs + session.submit_many(group, batch)

    def options(self, **given: Any) -> RemoteFunction:
        """The same function with other options.

        Raises `ConfigError` for names or values that cannot be.
        """
        dynamic = self._dynamic if "num_returns" not in given else given["num_returns"] == options.DYNAMIC
        parsed = options.parse(given, self._options)
        other = RemoteFunction(self._function, parsed, dynamic=dynamic, keeps=strategies.keeps_of(given) or self._keeps)
        if dynamic == self._dynamic:
            other._code = self._code
        return other

    def _sign(self) -> Signature:
        signature = self._signature = Signature(self._options.name, parameters_of(self._function))
        return signature

    def _group_for(self, session: Session) -> Group:
        group = self._group
        if (
            group is not None
            and session is self._session
            and code.epoch == self._epoch
            and session.current_task is None
        ):
            return group
        return self._renew(session)

    def _renew(self, session: Session) -> Group:
        """The group of the next calls: a new one when the session, the code or the submitting task has changed."""
        definition = self._code.current()
        parent = session.parent()
        given = job.fitted(self._options)
        group = self._group
        changed = group is None or session is not self._session or parent != self._parent
        if group is None or changed or group.function != definition.digest or group.options != given:
            session.define(definition)
            group = self._group = Group(definition.digest, given, parent)
        self._session, self._epoch, self._parent = session, code.epoch, parent
        return group

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise TypeError(
            f"{self._options.name} is a remote function: call {self._options.name}.remote(...) and get its value"
        )

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        raise TypeError(
            f"{self._options.name} is a remote function within a class: make the whole class remote, "
            "and it is an actor whose methods are called as actor.method.remote(...)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._function, self._options, self._dynamic, self._keeps)

    def __repr__(self) -> str:
        return f"<remote function {self._options.name}>"


def _again(
    function: Callable[..., Any], task_options: TaskOptions, dynamic: bool, keeps: tuple[Any, ...]
) -> RemoteFunction:
    """Called while unpickling."""
    return RemoteFunction(function, task_options, dynamic=dynamic, keeps=keeps)


class DynamicObjectRefGenerator:
    """The references of the items that a task with ``num_returns="dynamic"`` has made; the value of its reference."""

    def __init__(self, refs: list[ObjectRef]) -> None:
        self._refs = refs

    def __iter__(self) -> Any:
        return iter(self._refs)

    def __len__(self) -> int:
        return len(self._refs)

    def __getitem__(self, index: int) -> ObjectRef:
        return self._refs[index]


class _Dynamic:
    """A generator function that gives all its items at its end, a reference each."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> DynamicObjectRefGenerator:
        session = current.require()
        return DynamicObjectRefGenerator([session.put(item) for item in self._function(*args, **kwargs)])


def inputs_of(args: tuple[Any, ...], kwargs: dict[str, Any], deps: tuple[int, ...]) -> list[ObjectRef]:
    """The references among the arguments, in the order of ``deps``."""
    if not deps:
        return []
    found = {value.id: value for value in (*args, *kwargs.values()) if isinstance(value, ObjectRef)}
    return [found[id_] for id_ in deps]


def _fitted(task_options: TaskOptions, function: Callable[..., Any], dynamic: bool) -> TaskOptions:
    """Options with a name; a generator function gives its items as a stream if nothing else is said."""
    name = task_options.name or getattr(function, "__name__", "") or type(function).__name__
    count = task_options.num_returns
    if count == 1 and not dynamic and (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
        count = STREAMING
    return msgspec.structs.replace(task_options, name=name, num_returns=count)
