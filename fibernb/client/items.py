"""What has arrived of streaming tasks, and what their engines have to hear. Pure; guarded by the session's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from fibernb.client.refs import Due, ObjectRef
from fibernb.core.messages import Cancel, Consume, Message
from fibernb.model import ObjectId, TaskId, stream_of

WINDOW: Final = 1_000  # items that an engine is ahead unless the options say otherwise


class Stream:
    """What has arrived of one streaming task.

    Parameters
    ----------
    end : the reference whose answer is the number of items, or the error.
    """

    __slots__ = ("arrived", "callbacks", "closed", "consumed", "end", "items", "told", "window")

    def __init__(self, end: ObjectRef) -> None:
        self.end = end
        self.items: deque[ObjectRef] = deque()  # that nobody has taken yet
        self.arrived = 0
        self.consumed = 0
        self.told = 0  # of the consumed ones, those that the engine knows of
        self.window = WINDOW if end.group is None else end.group.options.backpressure or WINDOW
        self.closed = False  # nobody wants any more of it
        self.callbacks: list[Callable[[ObjectRef], object]] = []  # of those who wait for the next item

    def has_news(self) -> bool:
        """Whether there is an item to take, or will be none."""
        return bool(self.items) or self.end.answer is not None

    def take(self) -> ObjectRef | None:
        """The next item, if it is here."""
        if not self.items:
            return None
        self.consumed += 1
        return self.items.popleft()

    def owes(self) -> bool:
        """Whether so many items have been taken that the engine should hear of it."""
        return self.consumed - self.told >= max(1, self.window // 4) and self.end.answer is None

    def is_new(self, id_: ObjectId) -> bool:
        """Whether this item has come for the first time; a task that is run again gives its items again."""
        number = id_ - self.end.id
        if number <= self.arrived:
            return False
        self.arrived = number
        return True

    def add(self, item: ObjectRef) -> list[Due]:
        """An item has come; returns the callbacks that are due."""
        if not self.closed:
            self.items.append(item)
        return self.due()

    def due(self) -> list[Due]:
        """The callbacks of those who wait, who are told now."""
        callbacks, self.callbacks = self.callbacks, []
        return [(self.end, callbacks)] if callbacks else []


class Streams:
    """The streams of a session that have not ended."""

    def __init__(self) -> None:
        self.news = False  # whether `messages` would give something
        self._open: dict[TaskId, Stream] = {}
        self._all: set[TaskId] = set()  # those that have ended as well
        self._dropped: deque[TaskId] = deque()  # that nobody wants any more
        self._consumed: dict[TaskId, Stream] = {}  # of which the engine is to hear

    def open(self, end: ObjectRef) -> Stream:
        """A streaming task has been submitted."""
        stream = self._open[end.id] = Stream(end)
        self._all.add(end.id)
        return stream

    def of(self, item: ObjectId) -> Stream | None:
        """The open stream to which an object belongs, if it belongs to one."""
        return self._open.get(stream_of(item))

    def is_item(self, id_: ObjectId) -> bool:
        """Whether an object is an item of a stream, be it one that has ended."""
        return stream_of(id_) in self._all and id_ not in self._all

    def end(self, task: TaskId) -> list[Due]:
        """A task has ended, which may have been a streaming one."""
        stream = self._open.pop(task, None)
        return [] if stream is None else stream.due()

    def drop(self, task: TaskId) -> None:
        """Nobody wants more of a stream. Called from wherever its generator ends."""
        self._dropped.append(task)
        self.news = True

    def consume(self, stream: Stream) -> None:
        """The engine is to hear how many items have been taken."""
        if stream.end.id in self._open:
            self._consumed[stream.end.id] = stream
            self.news = True

    def messages(self) -> Iterator[Message]:
        """What engines have to hear."""
        self.news = False  # before the look: a generator may end meanwhile
        while self._consumed:
            _, stream = self._consumed.popitem()
            stream.told = stream.consumed
            yield Consume(task=stream.end.id, items=stream.consumed)
        while self._dropped:
            stream_dropped = self._open.get(self._dropped.popleft())
            if stream_dropped is not None:
                stream_dropped.closed = True
                stream_dropped.items.clear()
                yield Cancel(tasks=[stream_dropped.end.id])

    def replay(self) -> Iterable[Message]:
        """What a hub that knows nothing is told about open streams."""
        return [Consume(task=task, items=stream.consumed) for task, stream in self._open.items()]
