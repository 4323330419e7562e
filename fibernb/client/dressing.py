"""Exceptions of tasks for programs that catch ``RayTaskError``.

An exception of a task is raised as itself. A program that names ``fibernb.exceptions.RayTaskError`` expects, as Ray
documents it, that what `get` raises is of that class and of the user's: from then on a subclass of both is raised,
which bears the name of the user's class. Where that cannot be made, it is a plain ``RayTaskError`` with the user's
exception as its ``cause``.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from fibernb import serialize
from fibernb.client import refs
from fibernb.errors import FibernbError, RemoteTraceback


class TaskFailed(FibernbError):
    """A task raised an exception; called ``RayTaskError`` in `fibernb.exceptions`."""

    cause: BaseException | None = None  # the exception itself

    def as_instanceof_cause(self) -> BaseException:
        """Ray's: this exception, which is of the class of its cause already."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        text = self.__cause__.text if isinstance(self.__cause__, RemoteTraceback) else ""
        return dressed, (serialize.dumps_error(self.cause or Exception(str(self)), text),)


def name_task_error() -> Any:
    """`TaskFailed`, which the program has named; exceptions are dressed from now on.

    In an ``except`` clause that has to match an exception which was raised before: that class as well.
    """
    refs.dress = dress
    handled = sys.exception()
    if handled is None or isinstance(handled, FibernbError) or not isinstance(handled.__cause__, RemoteTraceback):
        return TaskFailed
    return (TaskFailed, type(handled))


def dress(error: BaseException) -> BaseException:
    """An exception of a task as a `TaskFailed` too; errors of FiberNB's own stay what they are."""
    if isinstance(error, FibernbError | KeyboardInterrupt) or not isinstance(error.__cause__, RemoteTraceback):
        return error
    return _dressed(error)


def dressed(data: bytes) -> BaseException:
    """Called while unpickling; ``data`` is the cause, as `serialize.dumps_error` gives it."""
    return _dressed(serialize.loads_error(data))


def _dressed(error: BaseException) -> BaseException:
    copy = _of_both(error) or TaskFailed(f"{type(error).__name__}: {error}")
    copy.cause = error
    copy.__cause__ = error.__cause__
    return copy


def _of_both(error: BaseException) -> TaskFailed | None:
    """The same exception as an instance of both classes; None when it resists."""
    kind: Any = type(error)
    for make in (_constructed, _filled_in):
        try:
            copy = make(_both(kind), error)
            serialize.set_fields(copy, serialize.fields_of(error))
            copy.__dict__.update(error.__dict__)
            if str(copy) == str(error):
                return copy
        except Exception:  # noqa: BLE001, S112  a class with a will of its own: the other way, or none
            continue
    return None


def _constructed(kind: type[TaskFailed], error: BaseException) -> TaskFailed:
    reduced: Any = error.__reduce__()
    return kind(*reduced[1])


def _filled_in(kind: type[TaskFailed], error: BaseException) -> TaskFailed:
    copy = kind.__new__(kind, *error.args)
    copy.args = error.args
    return copy


@lru_cache(256)
def _both(kind: Any) -> type[TaskFailed]:
    return type(kind.__name__, (TaskFailed, kind), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})
