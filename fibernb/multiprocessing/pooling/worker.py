"""A worker of a pool: takes pieces from its owner, runs them in the main thread, answers.

A second thread, the *watch*, is awake only while something may wait behind the item that runs. When that item takes
long, the watch sends the values that are there, and listens to the owner, who may want back what has not begun.
"""

from __future__ import annotations

import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from multiprocessing import util
from types import FrameType
from typing import Any, Final

from fibernb.multiprocessing import reduction
from fibernb.multiprocessing.connection import Connection
from fibernb.multiprocessing.pooling.channel import Channel
from fibernb.multiprocessing.pooling.messages import (
    GivenBack,
    Kept,
    Leave,
    Piece,
    Ready,
    Shape,
    Stop,
    ToWorker,
    Unfit,
    Work,
    to_worker,
)
from fibernb.multiprocessing.pooling.outbox import Outbox
from fibernb.multiprocessing.pooling.packing import pack_error, unpack

WATCH_S: Final = 0.01  # an item that runs for longer is watched
MAX_WATCH_S: Final = 0.2  # how long the watch listens at a time


def work(connection: Connection, initializer: Callable[..., object] | None, initargs: Iterable[Any]) -> None:
    """Be a worker until the owner says that there is no more, or has gone."""
    channel = Channel(connection, to_worker)
    if initializer is not None:
        try:
            initializer(*initargs)
        except Exception as error:
            channel.send(Unfit(error=pack_error(error).data[0]))
            raise
    try:
        worker = Worker(channel)
        signal.signal(signal.SIGINT, worker.look)
        channel.send(Ready())  # from now on interrupts may come
        worker.run()
    except (EOFError, OSError) as error:
        util.debug(f"the owner of the pool has gone: {error}")


class Running:
    """A piece whose items run."""

    def __init__(self, piece: Piece, items: deque[Any]) -> None:
        self.piece = piece
        self.items = items  # those that have not begun

    def cut(self) -> Kept:
        """Give up what has not begun."""
        taken = 0
        while self.items:
            try:
                self.items.pop()
            except IndexError:  # the last one has begun meanwhile
                break
            taken += 1
        return Kept(piece=self.piece.number, count=self.piece.count - taken)


class Worker:
    """The loop of the main thread, and the watch.

    Parameters
    ----------
    channel : to the owner.
    """

    def __init__(self, channel: Channel[ToWorker]) -> None:
        self._channel = channel
        self._outbox = Outbox(channel)
        self._reading = threading.Lock()
        self._backlog: deque[Piece] = deque()
        self._running: Running | None = None
        self._calls = 0  # that have been made
        self._call = 0  # the number of the one that is made now, which may be interrupted; 0: none
        self._stopped: set[int] = set()  # jobs that nobody wants
        self._is_summoned = False  # while nothing ran, the owner has sent something that cannot wait
        self._is_leaving = False
        self._pickles: dict[int, bytes] = {}
        self._functions: dict[int, Callable[..., Any]] = {}
        self._watching = threading.Event()
        self._main = threading.get_ident()

    def run(self) -> None:
        """Take pieces and run them, until there are no more."""
        threading.Thread(target=self._watch, name="fibernb-pool-watch", daemon=True).start()
        while (piece := self._next()) is not None:
            self._run(piece)
            if not self._backlog:
                self._outbox.flush()
        self._outbox.flush()

    # ---- running ------------------------------------------------------------------------------------------

    def _next(self) -> Piece | None:
        """The next piece; waits for one. None: there are no more."""
        while True:
            try:
                return self._backlog.popleft()
            except IndexError:
                if self._is_leaving:
                    return None
            with self._reading:
                if not self._backlog and not self._is_leaving:
                    self._take(self._channel.receive())

    def _run(self, piece: Piece) -> None:
        try:
            call = CALLERS[piece.shape](self._function(piece.function))
            items = deque(unpack(piece.items))
        except SystemExit:
            raise
        except BaseException as error:  # noqa: BLE001  whatever a user's class raises while it is loaded
            self._refuse(piece, error)
            return
        self._running = Running(piece, items)
        if (piece.goes_on or len(items) > 1 or self._backlog) and not self._watching.is_set():
            self._watching.set()
        self._outbox.begin(piece.number)
        if self._is_summoned:
            self._is_summoned = False
            self._read_at_once()
        self._run_items(call, items)
        self._running = None

    def _run_items(self, call: Callable[[Any], Any], items: deque[Any]) -> None:
        outbox = self._outbox
        number = self._calls
        while items:
            try:
                item = items.popleft()
            except IndexError:  # the watch has given it back
                break
            number += 1
            try:
                self._call = number
                value = call(item)
                self._call = 0
            except SystemExit:  # it asks for the end of this process
                raise
            except BaseException as error:  # noqa: BLE001  whatever the user's function raises
                self._call = 0
                outbox.fail(error)
            else:
                outbox.add(value)
        self._calls = number

    def _function(self, number: int) -> Callable[..., Any]:
        if number not in self._functions:
            self._functions[number] = reduction.loads(self._pickles.pop(number)) if number else _call_whole
        return self._functions[number]

    def _refuse(self, piece: Piece, error: BaseException) -> None:
        self._outbox.begin(piece.number)
        for _ in range(piece.count):
            self._outbox.fail(error)

    # ---- listening ----------------------------------------------------------------------------------------

    def _take(self, messages: list[ToWorker]) -> None:
        for message in messages:
            if isinstance(message, Work):
                self._take_work(message)
            elif isinstance(message, Leave):
                self._is_leaving = True
            elif isinstance(message, Stop):
                self._stop(message.job)
            else:
                self._give_back(lambda _: True)

    def _take_work(self, message: Work) -> None:
        self._pickles.update(message.functions)
        for number in message.forget:
            self._pickles.pop(number, None)
            self._functions.pop(number, None)
        self._backlog.extend(message.pieces)

    def _give_back(self, wanted: Callable[[Piece], bool]) -> None:
        """Give back those pieces, as far as they have not begun."""
        waiting = [piece for piece in list(self._backlog) if wanted(piece) and self._remove(piece)]
        kept = [Kept(piece=piece.number, count=0) for piece in waiting]
        running = self._running
        if running is not None and wanted(running.piece):
            kept.insert(0, running.cut())
        self._outbox.send(GivenBack(pieces=kept))

    def _remove(self, piece: Piece) -> bool:
        try:
            self._backlog.remove(piece)
        except ValueError:  # it has begun meanwhile
            return False
        return True

    def _stop(self, job: int) -> None:
        self._stopped.add(job)
        self._give_back(lambda piece: piece.job == job)
        if self._runs_in_vain() and threading.get_ident() != self._main:
            signal.pthread_kill(self._main, signal.SIGINT)

    def _runs_in_vain(self) -> bool:
        running = self._running
        return bool(self._call) and running is not None and running.piece.job in self._stopped

    def look(self, _number: int, _frame: FrameType | None) -> None:
        """The owner has sent something that cannot wait for the end of the item that runs: called by SIGINT."""
        if not self._call:
            self._is_summoned = True
            return
        self._read_at_once()
        if self._runs_in_vain():
            self._call = 0
            raise KeyboardInterrupt

    def _read_at_once(self) -> None:
        """Take what has come, unless somebody else does."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            while select.select([self._channel], [], [], 0)[0]:
                self._take(self._channel.receive())
        except (EOFError, OSError):
            self._is_leaving = True
        finally:
            self._reading.release()

    # ---- the watch ----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while True:
            self._watching.wait()
            try:
                self._watch_awhile()
            except OSError as error:
                util.debug(f"the owner of the pool has gone: {error}")
                return

    def _watch_awhile(self) -> None:
        """Look at the items that run until the main thread is idle, or at one behind which nothing waits."""
        pause_s, call = WATCH_S, -1
        while True:
            if call != self._call:  # the main thread gets on
                call, pause_s = self._call, WATCH_S
                time.sleep(pause_s)
                self._outbox.flush_old()
            elif not self._has_waiting():
                break
            elif select.select([self._channel], [], [], pause_s)[0]:
                self._read_at_once()
            else:
                pause_s = min(2 * pause_s, MAX_WATCH_S)
        self._watching.clear()
        if self._has_waiting():  # since then, and the main thread has still seen the watch awake
            self._watching.set()

    def _has_waiting(self) -> bool:
        """Whether something waits here, or perhaps in the connection."""
        running = self._running
        if running is not None and (running.items or running.piece.goes_on):
            return True
        return bool(self._backlog) or self._outbox.is_filled()


# ---- calls ----------------------------------------------------------------------------------------------


def _call_whole(item: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]) -> Any:
    function, args, kwargs = item
    return function(*args, **kwargs)


def _call_star(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda item: function(*item)


def _call_many(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda items: [function(item) for item in items]


def _call_star_many(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda items: [function(*item) for item in items]


def _call_with_keywords(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda item: function(*item[0], **item[1])


def _itself(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return function


CALLERS: Final[dict[Shape, Callable[[Callable[..., Any]], Callable[[Any], Any]]]] = {
    Shape.ONE: _itself,
    Shape.STAR: _call_star,
    Shape.MANY: _call_many,
    Shape.STAR_MANY: _call_star_many,
    Shape.CALL: _call_with_keywords,
    Shape.WHOLE_CALL: _itself,
}
