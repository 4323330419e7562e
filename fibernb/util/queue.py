"""A first-in-first-out queue that any task or actor can hold: an actor keeps its items."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fibernb.client.actors import ActorClass, kill
from fibernb.client.handles import ActorHandle
from fibernb.client.refs import ObjectRef
from fibernb.client.waiting import get, wait
from fibernb.errors import ConfigError

__all__ = ["Empty", "Full", "Queue"]

WAITERS: Final = 10_000  # producers and consumers that can wait at a time


class Empty(queue.Empty):
    """There was no item, or none in time."""


class Full(queue.Full):
    """There was no room, or none in time."""


class Queue:
    """A queue in an actor of its own; picklable, so that tasks and actors can be given it.

    Parameters
    ----------
    maxsize : how many items it holds; 0 for any number.
    actor_options : options of the actor, such as ``{"num_cpus": 1}``.
    """

    def __init__(self, maxsize: int = 0, actor_options: Mapping[str, Any] | None = None) -> None:
        self.maxsize = maxsize
        options = {"max_concurrency": WAITERS, **(actor_options or {})}
        self.actor: ActorHandle | None = ActorClass(QueueItems).options(**options).remote(maxsize)

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """How many items it holds now."""
        return int(get(self._running().qsize.remote()))

    def qsize(self) -> int:
        """As `size`."""
        return self.size()

    def empty(self) -> bool:
        """Whether it holds no item now."""
        return bool(get(self._running().empty.remote()))

    def full(self) -> bool:
        """Whether it has no room now."""
        return bool(get(self._running().full.remote()))

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item.

        Parameters
        ----------
        block : wait for room; False: `Full` when there is none.
        timeout : seconds to wait; `Full` when they are over.
        """
        get(self._putting(item, block, timeout))

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:  # noqa: ASYNC109  a name of Ray's
        """As `put`, to be awaited."""
        await self._putting(item, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the oldest item.

        Parameters
        ----------
        block : wait for one; False: `Empty` when there is none.
        timeout : seconds to wait; `Empty` when they are over.
        """
        return get(self._getting(block, timeout))

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ASYNC109  a name of Ray's
        """As `get`, to be awaited."""
        return await self._getting(block, timeout)

    def put_nowait(self, item: Any) -> None:
        """As `put` without waiting."""
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        """As `get` without waiting."""
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add all of these items, or none of them and raise `Full`."""
        if not isinstance(items, Iterable):
            raise TypeError(f"put_nowait_batch takes items that can be iterated over, not {type(items).__name__}")
        get(self._running().put_nowait_batch.remote(list(items)))

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Take so many items, or none of them and raise `Empty`."""
        if isinstance(num_items, bool) or not isinstance(num_items, int):
            raise TypeError(f"get_nowait_batch takes a number of items, not {type(num_items).__name__}")
        if num_items < 0:
            raise ConfigError(f"num_items cannot be {num_items}. It accepts 0 or more.")
        taken: list[Any] = get(self._running().get_nowait_batch.remote(num_items))
        return taken

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the queue's actor; items that nobody has taken are lost.

        Parameters
        ----------
        force : at once; otherwise what was called before is finished.
        grace_period_s : how long that may take, in seconds.
        """
        actor, self.actor = self.actor, None
        if actor is None:
            return
        if not force:
            ready, _ = wait([actor.__ray_terminate__.remote()], timeout=grace_period_s)
            force = not ready
        if force:
            kill(actor, no_restart=True)

    def _putting(self, item: Any, block: bool, timeout: float | None) -> ObjectRef:
        _check_timeout(timeout)
        actor = self._running()
        ref: ObjectRef = actor.put.remote(item, timeout) if block else actor.put_nowait.remote(item)
        return ref

    def _getting(self, block: bool, timeout: float | None) -> ObjectRef:
        _check_timeout(timeout)
        actor = self._running()
        ref: ObjectRef = actor.get.remote(timeout) if block else actor.get_nowait.remote()
        return ref

    def _running(self) -> ActorHandle:
        if self.actor is None:
            raise ConfigError("the queue has been shut down: make another")
        return self.actor


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None and timeout < 0:
        raise ConfigError(f"timeout cannot be {timeout!r}. It accepts a number of seconds, 0 or more, or None.")


class QueueItems:
    """The actor that holds the items."""

    def __init__(self, maxsize: int) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    async def qsize(self) -> int:
        return self._queue.qsize()

    async def empty(self) -> bool:
        return self._queue.empty()

    async def full(self) -> bool:
        return self._queue.full()

    async def put(self, item: Any, wait_s: float | None = None) -> None:
        try:
            await asyncio.wait_for(self._queue.put(item), wait_s)
        except TimeoutError:
            raise Full(f"the queue had no room within {wait_s:g} s") from None

    async def get(self, wait_s: float | None = None) -> Any:
        try:
            return await asyncio.wait_for(self._queue.get(), wait_s)
        except TimeoutError:
            raise Empty(f"the queue had no item within {wait_s:g} s") from None

    async def put_nowait(self, item: Any) -> None:
        await self.put_nowait_batch([item])

    async def get_nowait(self) -> Any:
        return (await self.get_nowait_batch(1))[0]

    async def put_nowait_batch(self, items: list[Any]) -> None:
        room = self._queue.maxsize - self._queue.qsize()
        if self._queue.maxsize > 0 and len(items) > room:
            raise Full(f"{len(items)} items do not fit: the queue has room for {max(0, room)} more")
        for item in items:
            self._queue.put_nowait(item)

    async def get_nowait_batch(self, num_items: int) -> list[Any]:
        if num_items > self._queue.qsize():
            raise Empty(f"{num_items} items were asked for, and the queue holds {self._queue.qsize()}")
        return [self._queue.get_nowait() for _ in range(num_items)]
