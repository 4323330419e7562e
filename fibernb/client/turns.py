"""Whose turn it is to read the link.

The one who waits reads: it takes the lead, and a synchronous call never leaves its own thread. Others who wait follow
and are told when something has come. When nobody waits, a background thread reads; it gives the lead up when it is
woken, and comes back only when nobody has led for a while, so that a loop of calls never hands over. Meanwhile it
looks every few milliseconds; when one thread goes on waiting it sleeps, and is roused when that thread stops.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
import time
import weakref
from collections.abc import Callable
from typing import Final

HAND_OVER_S: Final = 0.05  # how long the background thread may take to give way
REST_S: Final = 0.005  # how long nobody must have led before the background reads again


class Turns:
    """The lead among threads that want to read, and the pipe that wakes the one who reads.

    Parameters
    ----------
    mutex : the session's lock; it guards the lead as well.
    """

    def __init__(self, mutex: threading.RLock) -> None:
        self._mutex = mutex
        self._changed = threading.Condition(mutex)
        self._leader = 0  # thread identity; 0: nobody
        self._led = 0  # how often somebody has taken the lead
        self._alarm: queue.SimpleQueue[None] = queue.SimpleQueue()  # for the background thread; may be used anywhere
        self._standing_by = False
        self.sleeps = False  # the background thread stands by, and for as long as it takes
        self._left_at = 0.0
        self._followers = 0
        self._background = 0  # identity of the background thread while it leads
        self.woken, self._waker = os.pipe()
        for descriptor in (self.woken, self._waker):
            weakref.finalize(self, os.close, descriptor).atexit = False
        os.set_blocking(self.woken, False)
        os.set_blocking(self._waker, False)
        self._poll = select.poll()
        self._poll.register(self.woken, select.POLLIN)
        self._watched = -1

    def take(self) -> bool:
        """Take the lead if it is free; False even for the thread that has it already."""
        with self._mutex:
            if self._leader:
                return False
            self._leader = threading.get_ident()
            self._led += 1
            return True

    def take_over(self) -> bool:
        """As `take`, from the background thread if that has it."""
        if self.take():
            return True
        if not self._background:
            return False
        self.follow(lambda: False, HAND_OVER_S)
        return self.take()

    def take_in_background(self) -> bool:
        """Take the lead for the background thread, if it is free, unwanted, and has been for a while."""
        with self._changed:
            if self._leader or self._followers or time.monotonic() - self._left_at < REST_S:
                return False
            self._leader = self._background = threading.get_ident()
            return True

    def leave(self) -> None:
        """Give the lead up; those who follow look again."""
        with self._mutex:
            self._left_at = time.monotonic()
            self._leader = self._background = 0
            if self._followers:
                self._changed.notify_all()
        if self._standing_by:
            self.rouse()

    @property
    def led(self) -> int:
        """A number that changes when a thread in the foreground takes the lead."""
        return self._led

    def stand_by(self, led: int, patience_s: Callable[[], float | None]) -> None:
        """In the background: sleep while the thread that leads since ``led`` goes on, so long or until `rouse`."""
        self._standing_by = self.sleeps = True  # before the look: who does something afterwards rouses us
        pause_s = patience_s()
        self.sleeps = pause_s is None
        if self._led == led and (self._leader or self._followers):
            with contextlib.suppress(queue.Empty):
                self._alarm.get(timeout=pause_s)
        self._standing_by = self.sleeps = False

    def rouse(self) -> None:
        """End `stand_by`. From any thread, and from finalisers."""
        if self._standing_by:
            self._standing_by = False
            self._alarm.put(None)

    def leads(self) -> bool:
        """Whether the calling thread has the lead."""
        return self._leader == threading.get_ident()

    def wanted(self) -> bool:
        """Whether somebody waits for the lead or for news."""
        return self._followers > 0

    def follow(self, done: Callable[[], bool], timeout_s: float | None) -> None:
        """Wait until something has come or the lead has changed hands."""
        with self._changed:
            self._followers += 1  # before the look: who finishes afterwards sees a follower
            try:
                if not done() and self._leader:
                    if self._background:
                        self.wake()
                    self._changed.wait(timeout_s)
            finally:
                self._followers -= 1

    def rest(self, done: Callable[[], bool], timeout_s: float | None) -> None:
        """Wait for news while there is no link to read."""
        with self._changed:
            self._followers += 1
            try:
                if not done():
                    self._changed.wait(timeout_s)
            finally:
                self._followers -= 1

    def announce(self) -> None:
        """Something has come: those who follow look at it."""
        if self._followers:
            with self._changed:
                self._changed.notify_all()

    def watch(self, descriptor: int) -> None:
        """The descriptor of the link to read from now on. Only the leader calls this."""
        if self._watched >= 0:
            with contextlib.suppress(KeyError):
                self._poll.unregister(self._watched)
        self._watched = descriptor
        if descriptor >= 0:
            self._poll.register(descriptor, select.POLLIN)

    def await_input(self, timeout_s: float | None) -> bool:
        """Wait until the link may be read, or `wake`; whether the link may be read. Only the leader calls this."""
        readable = False
        for descriptor, _ in self._poll.poll(None if timeout_s is None else max(0.0, timeout_s * 1000)):
            if descriptor == self.woken:
                self.clear()
            else:
                readable = True
        return readable

    def clear(self) -> None:
        """Take notice of all wakes so far. Only the leader calls this."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.woken, 4096)

    def wake(self) -> None:
        """End the leader's wait; from any thread or signal handler."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._waker, b"\0")

    def forsake(self) -> None:
        """In a forked child: put the null device in the place of the link, without a word to the other side."""
        os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), self._watched)
