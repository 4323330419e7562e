"""Values of many references in the order in which they become ready."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from fibernb.client.functions import RemoteFunction
from fibernb.client.handles import ActorMethod
from fibernb.client.refs import ObjectRef
from fibernb.errors import ConfigError, GetTimeout

RemoteCallable: TypeAlias = RemoteFunction | ActorMethod


def as_completed(
    refs: Sequence[ObjectRef],
    chunk_size: int = 1,  # noqa: ARG001  a name of Ray's
    timeout: float | None = None,
) -> Iterator[Any]:
    """The values of references in the order in which they become ready.

    Parameters
    ----------
    chunk_size : Ray's; changes nothing, since all that is ready is taken at once.
    timeout : seconds to wait for each next value; `GetTimeout` when it is over.
    """
    return (ref.result(0) for ref in _in_order_of_completion(refs, timeout))


def map_unordered(
    function: RemoteCallable, items: Iterable[Any], backpressure_size: int | None = None
) -> Iterator[Any]:
    """The values of ``function.remote(item)`` over items, as they become ready.

    Parameters
    ----------
    backpressure_size : at most so many calls are under way at once; None: all.
    """
    if backpressure_size is None:
        if isinstance(function, RemoteFunction):
            return as_completed(function.map(items))
        return as_completed([function.remote(item) for item in items])
    if backpressure_size < 1:
        raise ConfigError(f"backpressure_size cannot be {backpressure_size!r}. It accepts 1 or more, or None.")
    return _map_in_window(function, iter(items), backpressure_size)


def _map_in_window(function: RemoteCallable, items: Iterator[Any], limit: int) -> Iterator[Any]:
    ready: deque[ObjectRef] = deque()
    under_way = {_start(function, item, ready) for item in itertools.islice(items, limit)}
    while under_way:
        _wait(under_way, ready, None)
        ref = ready.popleft()
        under_way.discard(ref)
        under_way.update(_start(function, item, ready) for item in itertools.islice(items, 1))
        yield ref.result(0)


def _start(function: RemoteCallable, item: Any, ready: deque[ObjectRef]) -> ObjectRef:
    ref: ObjectRef = function.remote(item)
    ref.add_done_callback(ready.append)
    return ref


def _in_order_of_completion(refs: Sequence[ObjectRef], timeout: float | None) -> Iterator[ObjectRef]:
    ready: deque[ObjectRef] = deque()
    for ref in refs:
        ref.add_done_callback(ready.append)
    for _ in refs:
        _wait(refs, ready, timeout)
        yield ready.popleft()


def _wait(refs: Collection[ObjectRef], ready: deque[ObjectRef], timeout: float | None) -> None:
    """Wait until one of the references has told that it is ready."""
    if not ready and not next(iter(refs)).session.wait(lambda: bool(ready), timeout):
        raise GetTimeout(f"none of {len(refs)} values became ready within {timeout:g} s")
