"""Remote functions: what ``@fibernb.remote`` makes.

A function is pickled at its first call. In a notebook its globals and helpers may change afterwards: the notebook
layer raises `epoch` with every cell, and the first call in a new epoch pickles again. Only when the content has changed
does anything travel.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fibernb import serialize
from fibernb.client import current, options
from fibernb.client.ledger import BATCH_BYTES, BATCH_CALLS
from fibernb.client.refs import Group, ObjectRef
from fibernb.client.session import Session, define
from fibernb.core.messages import DefineFunction
from fibernb.errors import ConfigError, FibernbError
from fibernb.model import DEFAULT_OPTIONS, TaskId, TaskOptions

epoch = 0  # raised when what functions refer to may have changed


def next_epoch() -> None:
    """What functions refer to may have changed: their next calls look."""
    global epoch
    epoch += 1


class RemoteFunction:
    """A function whose calls run on the cluster.

    ``f.remote(*args, **kwargs)`` submits a call and returns its `ObjectRef` at once; ``f.options(...)`` gives the same
    function with other options, by Ray's names.
    """

    def __init__(self, function: Callable[..., Any], task_options: TaskOptions = DEFAULT_OPTIONS) -> None:
        self._function = function
        self._options = _named(task_options, function)
        self._plain = self._options.num_returns == 1
        self._code = _Code(function)
        self._session: Session | None = None
        self._epoch = -1
        self._parent: TaskId | None = None
        self._group: Group | None = None
        functools.update_wrapper(self, function, updated=())

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Submit a call. Gives an `ObjectRef`; a list of them for ``num_returns`` above 1; None for 0."""
        session = current.session or current.require()
        group = self._group_for(session)
        data, deps = serialize.dumps_call(args, kwargs, ObjectRef)
        if self._plain and not deps:
            return session.submit(group, data)
        refs = session.submit_general(group, data, _inputs(args, kwargs, deps))
        return refs[0] if self._plain else (refs or None)

    def map(self, items: Iterable[Any]) -> list[ObjectRef]:
        """Submit ``f(item)`` for every item: a reference each, in order. Cheaper than as many ``remote`` calls."""
        return self.starmap((item,) for item in items)

    def starmap(self, arguments: Iterable[tuple[Any, ...]]) -> list[ObjectRef]:
        """Submit ``f(*args)`` for every tuple of arguments: a reference each, in order."""
        if not self._plain:
            raise ConfigError(f"{self._options.name} returns {self._options.num_returns} values: map needs one")
        session = current.session or current.require()
        group = self._group_for(session)
        dumps_call = serialize.dumps_call
        refs: list[ObjectRef] = []
        batch: list[bytes] = []
        size_bytes = 0
        for args in arguments:
            data, deps = dumps_call(args, {}, ObjectRef)
            size_bytes += len(data)
            if deps or len(batch) >= BATCH_CALLS or size_bytes > BATCH_BYTES:
                refs += session.submit_many(group, batch)
                batch, size_bytes = [], len(data)
            if deps or size_bytes > BATCH_BYTES:
                refs.append(self.remote(*args))
            else:
                batch.append(data)
        return refs + session.submit_many(group, batch)

    def options(self, **given: Any) -> RemoteFunction:
        """The same function with other options.

        Raises `ConfigError` for names or values that cannot be.
        """
        other = RemoteFunction(self._function, options.parse(given, self._options))
        other._code = self._code
        return other

    def _group_for(self, session: Session) -> Group:
        group = self._group
        if group is not None and session is self._session and epoch == self._epoch and session.current_task is None:
            return group
        return self._renew(session)

    def _renew(self, session: Session) -> Group:
        """The group of the next calls: a new one when the session, the code or the submitting task has changed."""
        code = self._code.current()
        parent = session.parent()
        group = self._group
        changed = group is None or session is not self._session or parent != self._parent
        if group is None or changed or group.function != code.digest:
            session.define(code)
            group = self._group = Group(code.digest, self._options, parent)
        self._session, self._epoch, self._parent = session, epoch, parent
        return group

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise TypeError(
            f"{self._options.name} is a remote function: call {self._options.name}.remote(...) and get its value"
        )

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        raise FibernbError("remote methods belong to actors, which this version of FiberNB does not have")

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFunction, (self._function, self._options)

    def __repr__(self) -> str:
        return f"<remote function {self._options.name}>"


class _Code:
    """The pickle of a function, made again once an epoch."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._epoch = -1
        self._message: DefineFunction | None = None

    def current(self) -> DefineFunction:
        if self._message is None or self._epoch != epoch:
            self._message = define(self._function)
            self._epoch = epoch
        return self._message


def remote(*args: Any, **given: Any) -> Any:
    """Make a function remote: as ``@remote``, ``@remote(num_cpus=2)`` or ``remote(function)``."""
    if len(args) == 1 and not given and callable(args[0]):
        return _remote(args[0], DEFAULT_OPTIONS)
    if args:
        raise TypeError("remote takes one function, or options by name: @remote, @remote(num_cpus=2)")
    parsed = options.parse(given)
    return lambda function: _remote(function, parsed)


def _remote(function: Callable[..., Any], task_options: TaskOptions) -> RemoteFunction:
    if isinstance(function, RemoteFunction):
        raise TypeError(f"{function!r} is remote already")
    if inspect.isclass(function):
        raise FibernbError(
            f"{function.__name__} is a class: actors are not in this version of FiberNB; make a function remote"
        )
    if not callable(function):
        raise TypeError(f"remote takes a function, not {type(function).__name__}")
    return RemoteFunction(function, task_options)


def _named(task_options: TaskOptions, function: Callable[..., Any]) -> TaskOptions:
    if task_options.name:
        return task_options
    name = getattr(function, "__name__", "") or type(function).__name__
    return msgspec.structs.replace(task_options, name=name)


def _inputs(args: tuple[Any, ...], kwargs: dict[str, Any], deps: tuple[int, ...]) -> list[ObjectRef]:
    """The references among the arguments, in the order of ``deps``."""
    found = {value.id: value for value in (*args, *kwargs.values()) if isinstance(value, ObjectRef)}
    return [found[id_] for id_ in deps]
