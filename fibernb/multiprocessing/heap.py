"""Blocks of shared memory, which any process of the host may be given.

The library's heap cuts arenas into blocks. Before each block stands a number of its own, so that a block which was
given away, dropped and used again is not taken for what it was. A block that has been sent somewhere is not used again
before it has been on its way for a minute and nobody uses it.
"""

from __future__ import annotations

import os
import secrets
import struct
import sys
import time
import weakref
from mmap import PAGESIZE
from multiprocessing import heap
from typing import Any, ClassVar, Final, TypeAlias

from fibernb.multiprocessing.arenas import Arena

ON_ITS_WAY_S: Final = 60.0
NUMBER: Final = struct.Struct("Q")  # before each block

Key: TypeAlias = tuple[str, int, int]  # arena, start, number


class Heap(heap.Heap):
    """The library's, in memory that can be sent."""

    def _new_arena(self: Any, size: int) -> tuple[Arena, int, int]:
        arena = Arena(self._roundup(max(self._size, size), PAGESIZE))
        if self._size < self._DOUBLE_ARENA_SIZE_UNTIL:
            self._size *= 2
        self._arenas.append(arena)
        return arena, 0, arena.size


class Block:
    """A block that something in this process uses: one object, however many use it."""

    __slots__ = ("__weakref__", "arena", "hold", "start")

    def __init__(self, hold: Hold) -> None:
        self.hold = hold
        self.arena = hold.arena
        self.start = hold.start
        weakref.finalize(self, hold.drop)
        _blocks[hold.key] = self


class Hold:
    """This process's hold on a block.

    Parameters
    ----------
    owner : the heap that the block is cut from; None when it is another process's.
    """

    __slots__ = ("_owner", "_pid", "_stop", "arena", "is_sent", "number", "start")

    def __init__(self, arena: Arena, start: int, stop: int, number: int, owner: Heap | None) -> None:
        self.arena = arena
        self.start = start
        self.number = number
        self.is_sent = False
        self._stop = stop
        self._owner = owner
        self._pid = os.getpid()

    @property
    def key(self) -> Key:
        return self.arena.identity, self.start, self.number

    def drop(self) -> None:
        """Nothing in this process uses the block. What a fork has copied drops nothing."""
        if os.getpid() != self._pid:
            return
        if self.is_sent:
            _dropped[self.key] = (time.monotonic() + ON_ITS_WAY_S, self)
        else:
            self.end()

    def end(self) -> bool:
        """Give the block back. False when it is ours and others use it."""
        if self._owner is None:
            self.arena.unmark(self.start)
            return True
        NUMBER.pack_into(self.arena.buffer, self.start, 0)
        if self.is_sent and self.arena.is_marked(self.start):
            NUMBER.pack_into(self.arena.buffer, self.start, self.number)
            return False
        free: Any = self._owner.free
        free((self.arena, self.start, self._stop))
        return True


_blocks: Final[weakref.WeakValueDictionary[Key, Block]] = weakref.WeakValueDictionary()
_dropped: Final[dict[Key, tuple[float, Hold]]] = {}  # what was sent: when to look whether it is used


class BufferWrapper(heap.BufferWrapper):
    """Bytes of shared memory.

    Parameters
    ----------
    size : bytes.
    """

    _heap: ClassVar[Heap] = Heap()

    def __init__(self, size: int) -> None:
        if size < 0:
            raise ValueError(f"Size {size:n} out of range")
        if sys.maxsize - NUMBER.size <= size:
            raise OverflowError(f"Size {size:n} too large")
        _end_dropped(time.monotonic())
        self._use(_allocated(size), size)

    def _use(self, block: Block, size: int) -> None:
        self._block = block
        self._size = size
        start = block.start + NUMBER.size
        self._state = ((block.arena, start, start + size), size)  # as the library has it

    def __reduce__(self) -> tuple[Any, ...]:
        hold = self._block.hold
        hold.is_sent = True
        return _received, (type(self), hold.arena, hold.start, hold.number, self._size)


def _allocated(size: int) -> Block:
    owner = BufferWrapper._heap
    malloc: Any = owner.malloc
    arena, start, stop = malloc(size + NUMBER.size)
    number = secrets.randbits(63) | 1
    NUMBER.pack_into(arena.buffer, start, number)
    return Block(Hold(arena, start, stop, number, owner))


def _received(class_: type[BufferWrapper], arena: Arena, start: int, number: int, size: int) -> BufferWrapper:
    """Called while unpickling."""
    wrapper = class_.__new__(class_)
    wrapper._use(_known(arena, start, number) or _foreign(arena, start, number), size)
    return wrapper


def _known(arena: Arena, start: int, number: int) -> Block | None:
    key = (arena.identity, start, number)
    block = _blocks.get(key)
    if block is None and key in _dropped:
        return Block(_dropped.pop(key)[1])
    return block


def _foreign(arena: Arena, start: int, number: int) -> Block:
    arena.mark(start)
    if NUMBER.unpack_from(arena.buffer, start)[0] != number:
        arena.unmark(start)
        raise FileNotFoundError("the shared memory of this value has gone: it was on its way for too long")
    return Block(Hold(arena, start, start, number, None))


def _end_dropped(now: float) -> None:
    for key, (due, hold) in list(_dropped.items()):
        if due <= now and _dropped.pop(key, None) is not None and not hold.end():
            _dropped[key] = (now + ON_ITS_WAY_S, hold)
