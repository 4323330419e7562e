"""Generators that run elsewhere: their items, as references, while they are still being made.

The session's books keep a `fibernb.client.items.Stream` for each such task until it has ended; the user has an
`ObjectRefGenerator`. Dropping that stops the task, as dropping a generator does.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from fibernb.client.items import Stream
from fibernb.client.refs import ObjectRef, Owner, tell_loop
from fibernb.model import Outcome, TaskId


class StreamOwner(Owner, Protocol):
    """What a generator needs of its session."""

    def consume(self, stream: Stream) -> None: ...

    def watch_stream(self, stream: Stream, callback: Callable[[ObjectRef], object]) -> None: ...

    def drop_stream(self, task: TaskId) -> None: ...


class ObjectRefGenerator:
    """The references of what a remote generator yields, in order, each as soon as it is there.

    Iterate over it with ``for`` or ``async for``. When the generator has failed, the last reference that comes out
    raises its error at ``get``. An engine runs no more than ``backpressure`` items ahead. Dropping this stops the
    generator.
    """

    def __init__(self, stream: Stream, session: StreamOwner) -> None:
        self._stream = stream
        self._session = session
        self._over = False
        weakref.finalize(self, session.drop_stream, stream.end.id).atexit = False

    @property
    def id(self) -> TaskId:
        """The task that generates."""
        return self._stream.end.id

    @property
    def session(self) -> StreamOwner:
        """Where it runs."""
        return self._session

    def completed(self) -> ObjectRef:
        """A reference that is ready when the generator has ended: the number of its items, or its error."""
        return self._stream.end

    def next_ready(self) -> bool:
        """Whether ``next`` would give a reference without waiting."""
        end = self._stream.end.answer
        return bool(self._stream.items) or not (end is None or end.outcome is Outcome.OK or self._over)

    def is_finished(self) -> bool:
        """Whether nothing is left: the generator has ended, and all that it made has been taken."""
        end = self._stream.end.answer
        return end is not None and not self._stream.items and (self._over or end.outcome is Outcome.OK)

    def done(self) -> bool:
        """Whether ``next`` would not wait, be it that there is no more."""
        return self._stream.has_news()

    def cancel(self, force: bool = False, recursive: bool = True) -> None:
        """As `fibernb.cancel`: what has been made can still be taken."""
        self._stream.end.cancel(force, recursive)

    def __iter__(self) -> ObjectRefGenerator:
        return self

    def __next__(self) -> ObjectRef:
        while True:
            ref = self._take()
            if ref is not None:
                return ref
            if self._over:
                raise StopIteration
            self._tell_consumed()
            self._session.wait(self._stream.has_news)

    def __aiter__(self) -> ObjectRefGenerator:
        return self

    async def __anext__(self) -> ObjectRef:
        while True:
            ref = self._take()
            if ref is not None:
                return ref
            if self._over:
                raise StopAsyncIteration
            self._tell_consumed()
            with self._session.waiting():
                await self._arrival()

    def _take(self) -> ObjectRef | None:
        """The next reference, if it is here. None either to wait, or when it is over."""
        end = self._stream.end
        has_ended = end.answer is not None  # before the look at the items: they come first
        ref = self._stream.take()
        if ref is not None:
            if self._stream.owes():
                self._session.consume(self._stream)
            return ref
        if not has_ended or self._over:
            return None
        self._over = True
        return end if end.answer is not None and end.answer.outcome is not Outcome.OK else None

    def _tell_consumed(self) -> None:
        if self._stream.consumed > self._stream.told:
            self._session.consume(self._stream)

    def _arrival(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        arrival: asyncio.Future[None] = loop.create_future()
        self._session.watch_stream(self._stream, lambda _: tell_loop(loop, arrival))
        self._session.flush()
        return arrival

    def __reduce__(self) -> Any:
        raise TypeError(
            "a generator of references stays where it was made: pass on the references that come out of it, "
            "or list(generator)"
        )

    def __repr__(self) -> str:
        end = self._stream.end
        state = "running" if end.answer is None else end.answer.outcome.name.lower()
        taken, here = self._stream.consumed, len(self._stream.items)
        return f"ObjectRefGenerator({end.id:#x}, {taken} taken, {here} here, {state})"
