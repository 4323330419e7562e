"""Queues between any number of processes of a cluster.

They are the library's, on another pipe (`fibernb.multiprocessing.packets`): a process that is killed while it puts or
gets takes at most the item with it that it was about to get. An item is pickled by ``put`` itself, and leaves at once
when the pipe has room; else a thread sends it, as the library's does.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from multiprocessing import queues, util
from multiprocessing.synchronize import SEM_VALUE_MAX  # type: ignore[attr-defined]  # unknown to typeshed
from queue import Empty, Full
from typing import Any, NamedTuple

from fibernb.multiprocessing import synchronize
from fibernb.multiprocessing.packets import PacketConnection, packet_pipe
from fibernb.multiprocessing.reduction import dumps, loads

__all__ = ["Empty", "Full", "JoinableQueue", "Queue", "SimpleQueue"]


class Queue(queues.Queue):  # type: ignore[type-arg]  # a type of its items is only known from 3.13 on
    """A queue whose items are sent from a buffer of the process that puts."""

    _buffer: deque[Any]
    _closed: bool
    _notempty: threading.Condition
    _thread: threading.Thread | None
    _joincancelled: bool
    _reset: Callable[[], None]
    _on_queue_feeder_error: Callable[[Exception, Any], None]

    def __init__(self, maxsize: int = 0, *, ctx: Any = synchronize) -> None:
        self._maxsize = maxsize if maxsize > 0 else SEM_VALUE_MAX
        self._reader, self._writer = packet_pipe()
        self._sem = ctx.BoundedSemaphore(self._maxsize)
        self._opid = os.getpid()
        self._ignore_epipe = False
        self._has_put = False
        self._reset()
        util.register_after_fork(self, queues.Queue._after_fork)  # type: ignore[attr-defined]

    def __getstate__(self) -> Any:
        return self._ignore_epipe, self._maxsize, self._reader, self._writer, self._sem, self._opid

    def __setstate__(self, state: Any) -> None:
        self._ignore_epipe, self._maxsize, self._reader, self._writer, self._sem, self._opid = state
        self._has_put = False
        self._reset()

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        self._check_open()
        try:
            data = dumps(obj)
        except Exception as error:  # noqa: BLE001  the library's hook takes any
            self._on_queue_feeder_error(error, obj)
            return
        if not self._sem.acquire(block, timeout):
            raise Full
        self._count()
        self._has_put = True
        try:
            self._send(data)
        except OSError as error:
            _Feeder.of(self).fail(error, data)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        self._check_open()
        data = self._reader.recv_packet() if block and timeout is None else self._received(timeout if block else 0)
        self._sem.release()
        return loads(data)

    def close(self) -> None:
        super().close()
        if self._has_put and self._thread is None:  # else that does it when it has sent everything
            self._reader.close()
            self._writer.close()

    def _received(self, timeout: float | None) -> bytes | memoryview:
        try:
            return self._reader.recv_packet(wait=False)
        except BlockingIOError:
            data = self._reader.recv_within(timeout or 0)
        if data is None:
            raise Empty
        return data

    def _send(self, data: bytes) -> None:
        """Behind what waits to be sent, or else at once if there is room."""
        with self._notempty:
            if self._buffer or not self._writer.send_packet(data, wait=False):
                if self._thread is None:
                    self._start_thread()
                self._buffer.append(data)
                self._notempty.notify()

    def _count(self) -> None:
        """An item is about to be sent."""

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")

    def _start_thread(self) -> None:
        feeder = _Feeder.of(self)
        self._thread = threading.Thread(target=feeder.run, name="QueueFeederThread", daemon=True)
        self._thread.start()
        if not self._joincancelled:
            join = [weakref.ref(self._thread)]
            self._jointhread = util.Finalize(self._thread, queues.Queue._finalize_join, join, exitpriority=-5)  # type: ignore[attr-defined]
        close = [self._buffer, self._notempty]
        self._close = util.Finalize(self, queues.Queue._finalize_close, close, exitpriority=10)  # type: ignore[attr-defined]


class _Feeder(NamedTuple):
    """Sends what had no room, in a thread that does not keep its queue alive."""

    buffer: deque[Any]
    notempty: threading.Condition
    reader: PacketConnection
    writer: PacketConnection
    semaphore: Any
    ignores_broken_pipe: bool
    tell: Callable[[Exception, Any], None]

    @classmethod
    def of(cls, queue: Queue) -> _Feeder:
        return cls(
            queue._buffer,
            queue._notempty,
            queue._reader,
            queue._writer,
            queue._sem,
            queue._ignore_epipe,
            queue._on_queue_feeder_error,
        )

    def run(self) -> None:
        while (data := self._first()) is not queues._sentinel:  # type: ignore[attr-defined]
            try:
                self.writer.send_packet(data)
            except OSError as error:
                if not self.fail(error, data):
                    return
            with self.notempty:
                self.buffer.popleft()
        self.reader.close()
        self.writer.close()

    def _first(self) -> Any:
        """What is to be sent next; it stays in the buffer until it has been."""
        with self.notempty:
            while not self.buffer:
                self.notempty.wait()
            return self.buffer[0]

    def fail(self, error: OSError, data: bytes) -> bool:
        """An item could not be sent. Whether the next one is to be tried."""
        if self.ignores_broken_pipe and error.errno == errno.EPIPE:
            return False
        if util.is_exiting():  # what it needs may be gone already
            util.info("error in queue thread: %s", error)
            return False
        self.semaphore.release()
        self.tell(error, loads(data))
        return True


class JoinableQueue(Queue, queues.JoinableQueue):  # type: ignore[type-arg]
    """A queue that knows how many of its items are not done yet."""

    def __init__(self, maxsize: int = 0, *, ctx: Any = synchronize) -> None:
        super().__init__(maxsize, ctx=ctx)
        self._unfinished_tasks = ctx.Semaphore(0)
        self._cond = ctx.Condition()

    def __getstate__(self) -> Any:
        return *super().__getstate__(), self._cond, self._unfinished_tasks

    def __setstate__(self, state: Any) -> None:
        *rest, self._cond, self._unfinished_tasks = state
        super().__setstate__(tuple(rest))

    def _count(self) -> None:
        self._unfinished_tasks.release()


class SimpleQueue(queues.SimpleQueue):  # type: ignore[type-arg]
    """A queue without a buffer: ``put`` waits while the pipe is full."""

    def __init__(self, *, ctx: Any = None) -> None:  # noqa: ARG002  the library's
        self.__setstate__(packet_pipe())

    def __getstate__(self) -> Any:
        return self._reader, self._writer

    def __setstate__(self, state: Any) -> None:
        self._reader, self._writer = state
        self._poll = self._reader.poll

    def get(self) -> Any:
        return self._reader.recv()

    def put(self, obj: Any) -> None:
        self._writer.send(obj)
