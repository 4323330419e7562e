"""Calls of an asyncio actor: coroutines in one event loop, which the engine's main thread runs from then on."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from fibernb.engine.actors import ActorExit
from fibernb.engine.batches import Batch, stopped
from fibernb.engine.context import name_of_call
from fibernb.engine.keeping import keep_error
from fibernb.engine.ledger import Verdict
from fibernb.engine.post import Post
from fibernb.engine.reporter import owner
from fibernb.engine.siding import Saver, Siding, crash
from fibernb.errors import NotConnected
from fibernb.model import Call, Result, TaskId
from fibernb.transport import Link

CLEAN_UP_S: Final = 1.0


class _Lane:
    """A concurrency group: so many coroutines at a time; calls wait in order."""

    def __init__(self, limit: int) -> None:
        self.limit = max(1, limit)
        self.running = 0
        self.waiting: deque[tuple[Batch, Call]] = deque()


class Coroutines:
    """Runs calls as tasks of an event loop. All but `interrupt` belongs to the main thread.

    Parameters
    ----------
    siding : the engine.
    saver : keeps checkpoints of the actor.
    limits : coroutines of each group; that of the empty name is for calls without one.
    """

    def __init__(self, siding: Siding, saver: Saver, limits: Mapping[str, int]) -> None:
        self.loop = asyncio.new_event_loop()
        self._siding = siding
        self._saver = saver
        self._flushes = False  # soon
        self._lanes = {group: _Lane(limit) for group, limit in limits.items()}
        self._tasks: dict[TaskId, asyncio.Task[None]] = {}
        self._struck: set[TaskId] = set()
        asyncio.set_event_loop(self.loop)

    def start(self, batch: Batch, call: Call) -> None:
        """Have a call run as soon as there is room in its group."""
        lane = self._lanes.get(batch.group) or self._lanes[""]
        if lane.running < lane.limit:
            self._start(lane, batch, call)
        else:
            lane.waiting.append((batch, call))

    def interrupt(self, task: TaskId) -> None:
        """Cancel the coroutine of a call; from any thread."""
        self.loop.call_soon_threadsafe(self._cancel, task)

    def stop(self) -> None:
        """Leave the event loop; from any thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)

    def create(self, batch: Batch, call: Call) -> Result:
        """Make the actor, with the event loop running, and wait until it is made."""
        return self.loop.run_until_complete(self._created(batch, call))

    async def _created(self, batch: Batch, call: Call) -> Result:
        owner.set(call.id)
        try:
            return await self._value(batch, call)
        except ActorExit:
            raise
        except BaseException as error:  # noqa: BLE001  whatever a constructor raises is its own
            return batch.failure(call.id, error)

    def end(self, last_words: Coroutine[Any, Any, object] | None) -> None:
        """Cancel what the actor has left running, and give it a moment to clean up."""
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if last_words is not None:
            left.add(self.loop.create_task(last_words))
        if left:
            self.loop.run_until_complete(asyncio.wait(left, timeout=CLEAN_UP_S))
        self.loop.close()

    # ---- in the loop ---------------------------------------------------------------------------------------

    def _start(self, lane: _Lane, batch: Batch, call: Call) -> None:
        lane.running += 1
        self._tasks[call.id] = self.loop.create_task(self._work_on(lane, batch, call))

    async def _work_on(self, lane: _Lane, batch: Batch, call: Call) -> None:
        began_s = self._siding.now()
        owner.set(call.id)
        name_of_call.set(batch.name)
        result = await self._result(batch, call)
        try:
            await self._end(batch, call, result, began_s)
        except Exception:  # noqa: BLE001  not of the call: the loop would only log it
            crash()
        self._tasks.pop(call.id, None)
        lane.running -= 1
        if lane.waiting:
            self._start(lane, *lane.waiting.popleft())
        self._flush_soon()

    async def _end(self, batch: Batch, call: Call, result: Result | None, began_s: float) -> None:
        self._struck.discard(call.id)
        if result is not None:
            if self._saver.saves:
                await self._saver.save_async()
            self._siding.end(batch, call, result, began_s)

    def _flush_soon(self) -> None:
        """With the results of all that ends in the same round of the loop."""
        if not self._tasks:
            self._siding.flush()
        elif not self._flushes:
            self._flushes = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushes = False
        self._siding.flush()

    async def _result(self, batch: Batch, call: Call) -> Result | None:
        """What the call comes to; None when it has ended the actor."""
        task = call.id
        try:
            if self._siding.ledger.begin_beside(task) is Verdict.STOP:
                return stopped(task)
            return await self._value(batch, call)
        except ActorExit as exit_:
            self._siding.leave(exit_.reason)
            return None
        except BaseException as error:  # noqa: BLE001  whatever a call raises is its own
            keep_error(task, batch.name, error)
            was_interrupted = task in self._struck and isinstance(error, asyncio.CancelledError)
            return batch.failure(task, KeyboardInterrupt() if was_interrupted else error, was_interrupted)

    async def _value(self, batch: Batch, call: Call) -> Result:
        args, kwargs = batch.arguments(call)
        value = batch.function(*args, **kwargs)
        if inspect.iscoroutine(value):
            value = await value
        if batch.is_streaming:
            return await self._siding.streams.run_async(batch, call.id, value)
        return batch.result(call.id, value)

    def _cancel(self, task: TaskId) -> None:
        running = self._tasks.get(task)
        if running is not None:
            self._struck.add(task)
            running.cancel()


class LoopReader:
    """Receives in an event loop what an engine otherwise receives in its own.

    Parameters
    ----------
    take : called with what came over a link, and the generation of the link.

    ``failure`` is what it raised, after which the loop stops.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, post: Post, take: Callable[[list[bytes], int], object]) -> None:
        self.failure: BaseException | None = None
        self._loop = loop
        self._post = post
        self._take = take
        self._link: Link | None = None
        self._generation = 0
        self._fd = -1

    def start(self) -> None:
        """Receive over the link that there is, and over whatever takes its place."""
        self._post.on_open = lambda: self._loop.call_soon_threadsafe(self._open)
        self._open()

    def read(self) -> bool:
        """Receive what is there already; whether there was anything."""
        return self._link is not None and self._read()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call this in the next round of the loop."""
        self._loop.call_soon(callback)

    def stop(self) -> None:
        """Receive no more."""
        self._post.on_open = None
        self._close()

    def _open(self) -> None:
        if not self._post.is_open:
            return  # the next link will tell
        self._close()
        self._link, self._generation = self._post.link()
        self._fd = self._link.fileno()
        self._loop.add_reader(self._fd, self._read)
        self._read()  # nothing may be waited for before

    def _close(self) -> None:
        if self._link is not None:
            self._loop.remove_reader(self._fd)
            self._link = None

    def _read(self) -> bool:
        assert self._link is not None
        try:
            data = self._link.receive(0)
            self._take(data, self._generation)
            return bool(data)
        except NotConnected:
            self._post.broken(self._link)
            self._close()
        except Exception as failure:  # noqa: BLE001  the loop would only log it
            self.failure = failure
            self._loop.stop()
        return False
