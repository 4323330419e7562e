"""Rings without processes: lanes that are lists, and members that are threads."""

from __future__ import annotations

import random
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fibernb.collectives.circle import Circle
from fibernb.collectives.fates import Fates
from fibernb.collectives.group import Group
from fibernb.collectives.lanes import IN_FRAME, IN_SLOT, SLOTS, Frame
from fibernb.collectives.meeting import Place
from fibernb.collectives.memory import Memory
from fibernb.collectives.schedule import Plan
from fibernb.collectives.turn import Turn


class ListLane:
    """Both ends of a lane, in one."""

    def __init__(self, slots: int) -> None:
        self.has_pending = False
        self.frames: deque[Frame] = deque()
        self.sent = 0  # chunks
        self._free = slots
        self._slot = bytearray()

    @property
    def holds_frame(self) -> bool:
        return bool(self.frames)

    def fileno(self) -> int:
        raise AssertionError("nobody waits here")

    def frame(self) -> Frame | None:
        return self.frames[0] if self.frames else None

    def drop(self) -> None:
        frame = self.frames.popleft()
        self._free += frame.kind == IN_SLOT

    def free_slots(self, wanted: int) -> int:
        return self._free

    def slot(self, size_bytes: int) -> memoryview:
        self._slot = bytearray(size_bytes)
        return memoryview(self._slot)

    def send_slot(self, hops: int, chunk: int, size_bytes: int) -> None:
        assert self._free, "more was sent than there is room for"
        self._free -= 1
        self.sent += 1
        self.frames.append(Frame(IN_SLOT, hops, chunk, memoryview(self._slot)))

    def send(self, kind: int, content: bytes | memoryview, hops: int = 0, chunk: int = 0) -> None:
        self.sent += kind == IN_FRAME
        self.frames.append(Frame(kind, hops, chunk, memoryview(bytes(content))))

    def flush(self) -> None:
        """Everything has gone."""


def play(plan: Plan, memories: Sequence[Memory], *, seed: int, slots: int = SLOTS, small: bool = False) -> list[int]:
    """Carry out a plan with members that get their turns in any order; how many chunks each has sent.

    Fails when nothing can move any more though not all are done.
    """
    lanes = [ListLane(slots) for _ in range(plan.size)]
    kind = IN_FRAME if small else IN_SLOT
    turns = [
        Turn(plan, memory, (lanes[position - 1], lanes[position]), position, "call", kind)
        for position, memory in enumerate(memories)
    ]
    order = random.Random(seed)
    while not all(turn.is_done for turn in turns):
        moved = [turn.advance() for turn in order.sample(turns, len(turns))]
        assert any(moved), "the ring is stuck"
    assert not any(lane.frames for lane in lanes)
    return [lane.sent for lane in lanes]


class Threads:
    """A ring whose members are threads of this process, in a directory of its own."""

    def __init__(self, directory: Path, size: int, token: str = "0") -> None:
        self.size = size
        self.directory = directory
        self.fates = Fates(directory, token, size)
        self.groups = [
            Group(range(size), position, self._circle(position, token) if size > 1 else None)
            for position in range(size)
        ]

    def _circle(self, position: int, token: str) -> Circle:
        names = tuple(range(self.size))
        return Circle(Place(directory=str(self.directory), token=token, position=position, names=names))

    def run(self, function: Callable[[Group], Any], *, without: Sequence[int] = ()) -> list[Any]:
        """What the function gives, or raises, on each member; None for those ``without`` it."""
        results: list[Any] = [None] * self.size

        def live(position: int) -> None:
            try:
                results[position] = function(self.groups[position])
            except Exception as error:
                results[position] = error

        threads = [threading.Thread(target=live, args=(position,)) for position in range(self.size)]
        running = [thread for position, thread in enumerate(threads) if position not in without]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join(60)
            assert not thread.is_alive(), "a member hangs"
        return results

    def close(self) -> None:
        for group in self.groups:
            group.close("has ended")
        self.fates.give_up("has ended")
        assert not list(self.directory.iterdir())


@contextmanager
def ring_of_threads(size: int) -> Iterator[Threads]:
    """A ring that leaves no file behind, or fails."""
    with tempfile.TemporaryDirectory(prefix="fnb-") as directory:
        ring = Threads(Path(directory), size)
        yield ring
        ring.close()
