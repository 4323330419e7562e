"""The workers that a pool has: hires them, lets them go, notices their ends."""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from fibernb.multiprocessing.pooling.members import Member
from fibernb.multiprocessing.pooling.messages import ToOwner

STOP_GRACE_S: Final = 3.0  # for a worker to stop what nobody wants any more


class Staff:
    """All workers, by number, and what is heard of them.

    Parameters
    ----------
    hire : starts a worker.
    on_messages : told what a worker says.
    on_end : told that a worker has ended, and what it said last.
    """

    def __init__(
        self,
        hire: Callable[[], Member],
        on_messages: Callable[[Member, list[ToOwner]], object],
        on_end: Callable[[Member, list[ToOwner]], object],
    ) -> None:
        self.members: dict[int, Member] = {}
        self.processes: list[Any] = []  # of the members
        self.active_count = 0  # of those that were not told to leave
        self.ended: list[Any] = []  # processes that nobody has joined yet
        self._hire = hire
        self._on_messages = on_messages
        self._on_end = on_end
        self._stopping: set[Member] = set()  # have to stop something within the grace
        self._hiring = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._wake_end, self._woken = os.pipe()
        os.set_blocking(self._woken, False)
        self._selector.register(self._wake_end, selectors.EVENT_READ, self._drain)

    def active(self) -> list[Member]:
        """Those that were not told to leave, the longest here first."""
        return [member for member in list(self.members.values()) if not member.is_dismissed]

    def hire_up_to(self, wanted: int) -> None:
        """Start workers until there are so many. Raises what the start of one raises."""
        with self._hiring:
            hired: list[Member] = []
            try:
                for _ in range(wanted - self.active_count):
                    hired.append(self._hire())
                    self.processes.append(hired[-1].process)
            finally:
                self.members |= {member.number: member for member in hired}
                self.active_count += len(hired)
            for member in hired:
                self._watch(member)

    def dismiss(self, members: Iterable[Member]) -> None:
        """Let these leave when they have done what they have."""
        for member in members:
            if not member.is_dismissed:
                self.active_count -= 1
                member.dismiss()

    def expect_stop(self, member: Member) -> None:
        """This worker has to stop what it runs within the grace."""
        member.stop_by = time.monotonic() + STOP_GRACE_S
        self._stopping.add(member)

    def has_stopped(self, member: Member) -> None:
        """It has."""
        self._stopping.discard(member)

    def serve(self, patience_s: float | None) -> None:
        """Tell what is heard, once; waits so many seconds for something."""
        if self._stopping:
            patience_s = STOP_GRACE_S if patience_s is None else min(patience_s, STOP_GRACE_S)
        for key, _ in self._selector.select(patience_s):
            key.data()
        self._force_stops()
        self.ended = [process for process in self.ended if process.exitcode is None]

    def wake(self) -> None:
        """End a wait in `serve`, from another thread."""
        with contextlib.suppress(OSError):  # it is awake, or closed
            os.write(self._woken, b"w")

    def close(self) -> None:
        """Close everything; `serve` must not run any more."""
        if self._woken < 0:
            return
        for member in self.members.values():
            member.close()
        self._selector.close()
        os.close(self._wake_end)
        os.close(self._woken)
        self._woken = -1

    def _watch(self, member: Member) -> None:
        self._selector.register(member.channel, selectors.EVENT_READ, lambda: self._hear(member))
        self._selector.register(member.process.sentinel, selectors.EVENT_READ, lambda: self._lose(member))

    def _drain(self) -> None:
        os.read(self._wake_end, 4096)

    def _hear(self, member: Member) -> None:
        if member.number not in self.members:
            return
        try:
            messages = member.channel.receive()
        except (EOFError, OSError):
            self._lose(member)
            return
        self._on_messages(member, messages)

    def _lose(self, member: Member) -> None:
        """A worker has ended, or closed its end of the connection, which only its end does."""
        if self.members.pop(member.number, None) is None:
            return
        rest = member.rest()
        self._selector.unregister(member.channel)
        self._selector.unregister(member.process.sentinel)
        member.close()
        self._stopping.discard(member)
        self.processes.remove(member.process)
        self.ended.append(member.process)
        if not member.is_dismissed:
            self.active_count -= 1
        self._on_end(member, rest)

    def _force_stops(self) -> None:
        now = time.monotonic()
        for member in [member for member in self._stopping if member.stop_by is not None and member.stop_by <= now]:
            self._stopping.discard(member)
            member.process.kill()
