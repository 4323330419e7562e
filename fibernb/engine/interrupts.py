"""KeyboardInterrupt for one task and no other.

The control thread names the task and signals the main thread. The handler there raises only while that very task is
inside the stretch of code that is prepared for it, so that an interrupt that comes late hits nobody.

A signal that comes just before the main thread enters a system call does not wake it from there, and Python runs the
handler only afterwards. So the control thread signals again while it is ``unheard``.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from fibernb.model import TaskId


class Leave(BaseException):
    """Raised in the main thread, outside of tasks, to end the engine in good order."""


class Interrupts:
    """Belongs to the main thread.

    ``armed`` is the task that may be interrupted now, 0 for none. ``waiting``: for work, so that nothing is lost by
    leaving.
    """

    def __init__(self) -> None:
        self.armed: TaskId = 0
        self.waiting = False
        self.target: TaskId = 0  # that is to be interrupted
        self.struck: TaskId = 0  # that was interrupted last
        self.strikes = 0  # how often any was
        self.leaving = False
        self.on_leave: Callable[[], object] | None = None  # ends an event loop that the main thread is in
        self._is_open = False
        self._main_thread = threading.main_thread().ident

    def install(self) -> None:
        """Take over SIGINT."""
        signal.signal(signal.SIGINT, self._handle)

    def open(self) -> None:
        """Signals from anybody have their ordinary effect: SIGINT interrupts what runs, SIGTERM ends the process."""
        self._is_open = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def interrupt(self, task: TaskId) -> None:
        """From another thread: raise KeyboardInterrupt in that task."""
        self.target = task
        self.signal()

    def leave(self) -> None:
        """From another thread: end the engine now if nothing runs, else when the current task has ended."""
        self.leaving = True
        self.signal()
        if self.on_leave is not None:
            self.on_leave()

    @property
    def unheard(self) -> bool:
        """Whether the main thread has not yet done what it was signalled for, though it can."""
        return (self.leaving and self.waiting) or (self.target != 0 and self.armed == self.target)

    def signal(self) -> None:
        """From another thread: make the main thread look."""
        if self._main_thread is not None:
            signal.pthread_kill(self._main_thread, signal.SIGINT)

    def strike(self) -> NoReturn:
        """In the main thread: interrupt the task that is armed."""
        self.struck, self.target = self.armed, 0
        self.strikes += 1
        raise KeyboardInterrupt

    @contextlib.contextmanager
    def shield(self) -> Iterator[None]:
        """Around what a task must not leave half done: an interrupt of the task waits until it is over."""
        if threading.get_ident() != self._main_thread:
            yield
            return
        armed, self.armed = self.armed, 0
        try:
            yield
        finally:
            self.armed = armed
        if armed and self.target == armed:
            self.strike()

    def _handle(self, _signum: int, _frame: FrameType | None) -> None:
        if self.armed:
            if self.armed == self.target:
                self.strike()
            if self._is_open and not self.leaving:
                raise KeyboardInterrupt
        elif self.leaving and self.waiting:
            self.waiting = False  # once is enough
            raise Leave
