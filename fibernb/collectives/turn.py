"""One member's part in one collective: what comes in is dealt with and sent on, as far as the lanes let it."""

from __future__ import annotations

import select
from collections import deque
from typing import Protocol

from fibernb.collectives.board import Cause, MemberLost
from fibernb.collectives.lanes import CALL, IN_FRAME, Frame
from fibernb.collectives.memory import Memory
from fibernb.collectives.schedule import Plan


class Incoming(Protocol):
    """What is needed of an `Inlet`."""

    @property
    def holds_frame(self) -> bool: ...

    def fileno(self) -> int: ...

    def frame(self) -> Frame | None: ...

    def drop(self) -> None: ...


class Outgoing(Protocol):
    """What is needed of an `Outlet`."""

    @property
    def has_pending(self) -> bool: ...

    def fileno(self) -> int: ...

    def free_slots(self, wanted: int) -> int: ...

    def slot(self, size_bytes: int) -> memoryview: ...

    def send_slot(self, hops: int, chunk: int, size_bytes: int) -> None: ...

    def send(self, kind: int, content: bytes | memoryview, hops: int = 0, chunk: int = 0) -> None: ...

    def flush(self) -> None: ...


class Turn:
    """A plan that is being carried out.

    Parameters
    ----------
    lanes : from the member before, and to the one after.
    position : of this member.
    call : what this is, for people; the same on all members.
    kind : of the frames in which chunks travel: ``IN_FRAME`` or ``IN_SLOT``.

    Raises `LaneBroken` when a neighbour has gone, `MemberLost` when the one before does something else.
    """

    def __init__(
        self, plan: Plan, memory: Memory, lanes: tuple[Incoming, Outgoing], position: int, call: str, kind: int
    ) -> None:
        self._plan = plan
        self._memory = memory
        self._inlet, self._outlet = lanes
        self._position = position
        self._call = call.encode()
        self._kind = kind
        self._to_give = deque(plan.begins(position))
        self._to_come = plan.arrivals(position)
        self._room = memoryview(b"")
        if plan.arrivals((position + 1) % plan.size):
            self._outlet.send(CALL, self._call)

    @property
    def is_done(self) -> bool:
        return not (self._to_give or self._to_come or self._outlet.has_pending)

    def advance(self) -> bool:
        """Do what can be done now; tells whether there was anything. What comes in goes before what begins here.

        What begins here leaves one slot free for what comes in: were all slots of the ring taken, nothing could move.
        """
        moved = False
        while self._to_come and (frame := self._inlet.frame()) is not None and self._take(frame):
            moved = True
        while self._to_give and self._has_room(2):
            self._give(self._to_give.popleft())
            moved = True
        self._outlet.flush()
        return moved

    def wait(self, timeout_s: float) -> bool:
        """Wait until there may be something to do; False when nothing happens in time."""
        poller = select.poll()
        is_stuck = self._to_come > 0 and self._inlet.holds_frame
        if self._to_come and not is_stuck:
            poller.register(self._inlet, select.POLLIN)
        interest = select.POLLIN * (is_stuck or bool(self._to_give)) | select.POLLOUT * self._outlet.has_pending
        if interest:
            poller.register(self._outlet, interest)
        return bool(poller.poll(timeout_s * 1000))

    def _take(self, frame: Frame) -> bool:
        """Deal with a frame; False when it has to wait for a slot."""
        if frame.kind == CALL:
            self._check(bytes(frame.content))
        else:
            deed = self._plan.deed(frame.hops)
            if deed.forward and not self._has_room(1):
                return False
            self._memory.take(self._plan.chunks[frame.chunk], deed, frame.content, self._make_room)
            if deed.forward:
                self._send(frame.hops + 1, frame.chunk)
            self._to_come -= 1
        self._inlet.drop()
        return True

    def _give(self, number: int) -> None:
        self._memory.give(self._plan.chunks[number], self._make_room)
        self._send(1, number)

    def _has_room(self, slots: int) -> bool:
        return self._kind == IN_FRAME or self._outlet.free_slots(slots) >= slots

    def _make_room(self, size_bytes: int) -> memoryview:
        if self._kind == IN_FRAME:
            self._room = memoryview(bytearray(size_bytes))
        else:
            self._room = self._outlet.slot(size_bytes)
        return self._room

    def _send(self, hops: int, chunk: int) -> None:
        if self._kind == IN_FRAME:
            self._outlet.send(IN_FRAME, self._room, hops, chunk)
        else:
            self._outlet.send_slot(hops, chunk, len(self._room))

    def _check(self, theirs: bytes) -> None:
        if theirs != self._call:
            before = (self._position - 1) % self._plan.size
            reason = f"called {theirs.decode()!r} where the next one called {self._call.decode()!r}"
            raise MemberLost(Cause(before, reason))
