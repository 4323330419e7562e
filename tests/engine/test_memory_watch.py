"""When the hub is told that memory runs short."""

from __future__ import annotations

import os

from fibernb.core.events import EngineMemory, LiveEngine
from fibernb.engine.memory_watch import MemoryWatch, private_bytes
from fibernb.store.memory import Account
from fibernb.wire.handshake import MemoryShort

ENGINES = [LiveEngine(engine=1, rank=0, pid=11), LiveEngine(engine=2, rank=1, pid=12)]


class Memory:
    def __init__(self) -> None:
        self.host = 0.1
        self.group = 0.1
        self.looks = 0

    def read(self) -> list[Account]:
        self.looks += 1
        return [
            Account(what="this host", limit_bytes=1000, used_bytes=int(self.host * 1000)),
            Account(what="the control group", limit_bytes=100, used_bytes=int(self.group * 100)),
        ]


def watch(memory: Memory, fraction: float = 0.9) -> MemoryWatch:
    return MemoryWatch(fraction, memory.read, lambda pid: pid * 100)


def test_the_fuller_account_counts_and_engines_are_told_with_their_sizes() -> None:
    memory = Memory()
    watching = watch(memory)
    assert watching.look(ENGINES, 1.0) is None
    memory.group = 0.95
    short = MemoryShort(
        used_bytes=95,
        limit_bytes=100,
        engines=[EngineMemory(engine=1, used_bytes=1100), EngineMemory(engine=2, used_bytes=1200)],
    )
    assert watching.look(ENGINES, 2.0) == short


def test_it_looks_once_a_second_and_more_often_near_the_limit() -> None:
    memory = Memory()
    watching = watch(memory)
    watching.look(ENGINES, 1.0)
    assert watching.left_s(1.25) == 0.75
    assert watching.look(ENGINES, 1.5) is None
    assert memory.looks == 1
    memory.host = 0.8
    watching.look(ENGINES, 2.0)
    assert watching.left_s(2.0) == 0.25
    assert watching.left_s(9.0) == 0.0


def test_what_is_killed_gets_a_moment_to_go() -> None:
    memory = Memory()
    watching = watch(memory)
    memory.host = 0.99
    told = [watching.look(ENGINES, at / 4) is not None for at in range(4, 14)]
    assert told == [True, False, False, False, True, False, False, False, True, False]


def test_it_can_be_off_and_nothing_known_is_nothing_short() -> None:
    memory = Memory()
    memory.host = 1.0
    off = watch(memory, 1.0)
    assert not off.is_on
    assert off.look(ENGINES, 1.0) is None
    assert memory.looks == 0
    assert MemoryWatch(0.5, list).look(ENGINES, 1.0) is None


def test_shared_memory_is_not_counted_for_a_process() -> None:
    import mmap

    mine = bytearray(os.urandom(1000)) * 20_000
    before = private_bytes(os.getpid())
    shared = mmap.mmap(-1, 50_000_000)
    shared.write(bytes(50_000_000))
    assert abs(private_bytes(os.getpid()) - before) < 30_000_000
    assert before > len(mine)
    assert private_bytes(2**22 + 1) == 0
    shared.close()
