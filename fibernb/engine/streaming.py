"""Streaming tasks: generators whose items leave as results of their own while they run.

Item *i* of task *t* is object *t + 1 + i*; the task's own result is the number of items. A generator that is too far
ahead of who takes its items is made to wait.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

from fibernb import serialize
from fibernb.engine.batches import Batch
from fibernb.model import STREAM_IDS, Result, TaskId

WINDOW: Final = 1000  # items ahead, where the options do not say
MAX_EARLY: Final = 10_000  # tasks that do not run here, of which is remembered how many items were taken
LOOK_S: Final = 0.1  # a thread that waits looks so often whether it is interrupted


class Window:
    """How many items of one task were taken."""

    def __init__(self) -> None:
        self.taken = 0
        self.on_taken: Callable[[], object] | None = None
        self._news: queue.SimpleQueue[int] = queue.SimpleQueue()  # whose waiting any interrupt may end safely

    def take(self, items: int) -> None:
        """So many were taken in all; from any thread."""
        self.taken = max(self.taken, items)
        if self._news.empty():
            self._news.put(items)
        if self.on_taken is not None:
            self.on_taken()

    def wait(self, timeout_s: float | None) -> None:
        """Wait until more may have been taken."""
        try:
            self._news.get(timeout=timeout_s)
        except queue.Empty:
            return


class Streams:
    """Runs the generators of streaming tasks.

    Parameters
    ----------
    send : hands an item on, in the thread that made it.
    """

    def __init__(self, send: Callable[[Result], object]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._windows: dict[TaskId, Window] = {}  # of tasks that run
        self._early: OrderedDict[TaskId, int] = OrderedDict()  # what was taken of those that may come

    def consume(self, task: TaskId, items: int) -> None:
        """So many items of a task have been taken in all; it need not have begun here."""
        with self._lock:
            window = self._windows.get(task)
            if window is None:
                self._early[task] = items
                if len(self._early) > MAX_EARLY:
                    self._early.popitem(last=False)
                return
        window.take(items)

    def run(self, batch: Batch, task: TaskId, value: Any) -> Result:
        """Take every item of a generator; the task's result."""
        items = _iterator(batch, value)
        window, ahead = self._open(task), batch.options.backpressure or WINDOW
        timeout_s = None if threading.current_thread() is threading.main_thread() else LOOK_S
        count = 0
        try:
            for item in items:
                self._send(_item(batch, task, count, item))
                count += 1
                while count - window.taken >= ahead:
                    window.wait(timeout_s)
        finally:
            self._close(task)
            _close(items)
        return Result(task, serialize.dumps(count))

    async def run_async(self, batch: Batch, task: TaskId, value: Any) -> Result:
        """As `run`, in an event loop, which goes on while the generator has to wait."""
        items = value if isinstance(value, AsyncIterator) else _awaiting(_iterator(batch, value))
        window, ahead = self._open(task), batch.options.backpressure or WINDOW
        news, loop = asyncio.Event(), asyncio.get_running_loop()
        window.on_taken = lambda: loop.call_soon_threadsafe(news.set)
        count = 0
        try:
            async for item in items:
                self._send(_item(batch, task, count, item))
                count += 1
                while count - window.taken >= ahead:
                    news.clear()
                    if count - window.taken >= ahead:
                        await news.wait()
        finally:
            self._close(task)
            window.on_taken = None
            await _close_async(items)
        return Result(task, serialize.dumps(count))

    def _open(self, task: TaskId) -> Window:
        window = Window()
        with self._lock:
            window.taken = self._early.pop(task, 0)
            self._windows[task] = window
        return window

    def _close(self, task: TaskId) -> None:
        with self._lock:
            self._windows.pop(task, None)


def _item(batch: Batch, task: TaskId, index: int, value: Any) -> Result:
    if index >= STREAM_IDS - 1:
        raise ValueError(f"{batch.name} yields more than {STREAM_IDS - 1:,} items: yield several at once, in lists")
    return batch.item(task + 1 + index, index, value)


def _iterator(batch: Batch, value: Any) -> Iterator[Any]:
    if isinstance(value, Iterator):
        return value
    if isinstance(value, AsyncIterator):
        return _waiting(value)
    raise TypeError(
        f'{batch.name} returned a {type(value).__name__}, but num_returns="streaming" wants a generator: '
        "yield the items one by one, or leave num_returns out"
    )


def _waiting(items: AsyncIterator[Any]) -> Iterator[Any]:
    """The items of an asynchronous generator outside of any event loop."""

    async def advance() -> Any:
        return await anext(items)

    with asyncio.Runner() as runner:
        while True:
            try:
                item = runner.run(advance())
            except StopAsyncIteration:
                return
            yield item


async def _awaiting(items: Iterator[Any]) -> AsyncIterator[Any]:
    """The items of an ordinary generator, with a look at the event loop after each."""
    try:
        for item in items:
            yield item
            await asyncio.sleep(0)
    finally:
        _close(items)


def _close(items: Iterator[Any]) -> None:
    close = getattr(items, "close", None)
    if close is not None:
        close()


async def _close_async(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()
