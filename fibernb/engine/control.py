"""The engine's second thread: obeys the control link, and sends on what a running task has said so far.

It sleeps while the engine is idle and while tasks are so short that the main thread sends everything by itself soon
enough: a main thread that begins to run something only wakes it when it has been asleep for a second.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import Final, Protocol

from fibernb.core.messages import Consume, EndActor, Exit, Forget, Interrupt, Recall, Started
from fibernb.engine.interrupts import Interrupts
from fibernb.engine.ledger import Ledger
from fibernb.engine.post import Post, RefusedByHub
from fibernb.errors import NotConnected
from fibernb.model import TaskId
from fibernb.transport import Link
from fibernb.transport.waker import Waker
from fibernb.wire import codec
from fibernb.wire.handshake import Refused

FIRST_TICK_S: Final = 0.05
TICK_S: Final = 0.1  # output and progress are sent at most so often
QUIET_TICK_S: Final = 0.25  # while a task runs and says nothing
AWAKE_S: Final = 1.0  # after the last thing that happened
SIGNAL_AGAIN_S: Final = 0.02
SOON_S: Final = 0.002  # items of a stream wait no longer than this for others

REFUSED_EXIT_CODE: Final = 75


class Worker(Protocol):
    """What the control thread needs of the engine."""

    @property
    def has_news(self) -> bool:
        """Whether calls have said something that was not sent."""

    def tick(self) -> bool:
        """Send what calls have said, and the results there are; tells whether there was anything."""

    def interrupt(self, task: TaskId) -> None:
        """Stop a call that has begun."""

    def consume(self, task: TaskId, items: int) -> None:
        """So many items of a streaming task have been taken."""


class Control:
    """What the control thread does."""

    def __init__(self, post: Post, ledger: Ledger, interrupts: Interrupts, worker: Worker) -> None:
        self._post = post
        self._ledger = ledger
        self._interrupts = interrupts
        self._worker = worker
        self._tick_s = FIRST_TICK_S
        self._tick_at = self._active_at = time.monotonic()
        self._announced = self._seen = -1  # positions: of the last `Started`, of the call at the last tick
        self._drowsy = True  # the next tick is far away, or there is none
        self._busy = False
        self._hurried = False
        self._ending = False  # the actor is to end
        self._done_since: float | None = None  # when nothing was left to do for it
        self._waker: Waker | None = None

    def start(self) -> None:
        """Begin the thread, which opens the links first."""
        self._waker = Waker()
        threading.Thread(target=self._main, args=(self._waker,), daemon=True, name="fibernb-control").start()

    # ---- for the main thread, and whoever prints -----------------------------------------------------------

    def begin_work(self) -> None:
        """There are calls to run."""
        self._busy = True
        if self._drowsy:
            self.rouse()

    def end_work(self) -> None:
        """They have been run, and everything was sent."""
        self._busy = False

    def hasten(self) -> None:
        """Something was said: let it be sent soon."""
        if self._drowsy:
            self.rouse()

    def hurry(self) -> None:
        """There are items of a stream: let them be sent very soon."""
        if not self._hurried:
            self._hurried = True
            self.rouse()

    def rouse(self) -> None:
        """Look around now: there is work, or a link is broken."""
        self._drowsy = False
        if self._waker is not None:
            self._waker.wake()

    # ---- the thread --------------------------------------------------------------------------------------

    def _main(self, waker: Waker) -> None:
        while not self._interrupts.leaving:
            try:
                self._serve(self._post.open(), waker)
            except NotConnected:
                continue
            except RefusedByHub as refusal:
                self._give_up(str(refusal))

    def _serve(self, link: Link, waker: Waker) -> None:
        """Obey and tick until a link breaks."""
        poller = select.poll()
        poller.register(waker.fileno(), select.POLLIN)
        poller.register(link.fileno(), select.POLLIN)
        while self._post.is_open:
            self._obey_all(link)
            if self._ending:
                self._end_when_done()
            if self._interrupts.unheard:
                self._interrupts.signal()
            ready = poller.poll(self._wait_ms())
            now = time.monotonic()
            if any(fd == waker.fileno() for fd, _ in ready):
                waker.clear()
                self._active_at = now
                self._tick_s = SOON_S if self._hurried else FIRST_TICK_S
                self._tick_at = now + self._tick_s
            elif now >= self._tick_at:
                self._tick(now)

    def _wait_ms(self) -> float | None:
        """How long to wait for the control link; None is for ever."""
        if self._interrupts.unheard or self._ending:
            return SIGNAL_AGAIN_S * 1000
        now = time.monotonic()
        if now - self._active_at >= AWAKE_S and not self._busy:
            self._drowsy = True  # from here on whoever begins something wakes us; it may just have begun
            if self._has_nothing_to_do():
                return None
        return max(0.0, self._tick_at - now) * 1000

    def _has_nothing_to_do(self) -> bool:
        return not (self._busy or self._worker.has_news or self._ledger.has_results)

    def _tick(self, now: float) -> None:
        self._hurried = False
        said_something = self._worker.tick()
        if said_something or self._busy or self._ledger.started != self._seen:
            self._active_at = now
        self._seen = self._ledger.started
        self._tick_s = TICK_S if said_something else min(self._tick_s * 2, QUIET_TICK_S)
        self._tick_at = now + self._tick_s
        self._drowsy = self._tick_s > TICK_S
        self._announce()

    def _announce(self) -> None:
        """Tell the hub what runs, if it has heard nothing for a while."""
        position = self._ledger.started - 1
        if self._ledger.is_running and position != self._announced:
            self._announced = position
            self._post.send(Started(position=position))

    def _obey_all(self, link: Link) -> None:
        for data in link.receive(0):
            self._obey(codec.to_engine.decode(data), link)

    def _obey(self, message: object, link: Link) -> None:
        if isinstance(message, Recall):
            link.send(codec.encode(self._ledger.recall(message)))
        elif isinstance(message, Interrupt):
            if self._ledger.stop(message.task):
                self._worker.interrupt(message.task)
        elif isinstance(message, Consume):
            self._worker.consume(message.task, message.items)
        elif isinstance(message, Forget):
            self._post.forget(message.forget)
        elif isinstance(message, EndActor):
            self._ending = True
        elif isinstance(message, Exit):
            self._interrupts.leave()
        elif isinstance(message, Refused):
            self._give_up(message.reason)

    def _end_when_done(self) -> None:
        """Leave once there was nothing left to do for a moment: what was sent before may still be on its way in."""
        now = time.monotonic()
        if not self._ledger.is_done:
            self._done_since = None
        elif self._done_since is None:
            self._done_since = now
        elif now - self._done_since >= SIGNAL_AGAIN_S:
            self._interrupts.leave()

    def _give_up(self, reason: str) -> None:
        os.write(2, f"the hub refuses this engine: {reason}\n".encode())
        os._exit(REFUSED_EXIT_CODE)
