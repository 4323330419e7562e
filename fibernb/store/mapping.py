"""The arena in the memory of one process, and copies into it."""

from __future__ import annotations

import _thread
import ctypes
import mmap
import os
import queue
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

MADV_HUGEPAGE: Final = 14
MADV_POPULATE_WRITE: Final = 23

UNIT_BYTES: Final = 2 * 2**20  # of which is known whether its pages have been met
SMALLEST_CHUNK_BYTES: Final = 2 * UNIT_BYTES  # that a thread copies at a time; of much, more: that is faster
CHUNKS_A_THREAD: Final = 2
THREADED_BYTES: Final = 8 * 2**20  # from this size on, several threads copy
MOST_THREADS: Final = 4
LOOK_S: Final = 0.1  # that a thread has ended is seen at once; this is only a net below

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Copy(NamedTuple):
    """A part of a copy: addresses in this process."""

    target: int
    source: int
    size_bytes: int


class Mapping:
    """The whole arena, mapped once. Memory that nobody has been given is mapped as well, and must not be touched.

    Parameters
    ----------
    fd : of the arena; a duplicate is kept.
    """

    def __init__(self, fd: int, size_bytes: int) -> None:
        self._mmap = mmap.mmap(fd, size_bytes)
        self._fd = os.dup(fd)
        weakref.finalize(self, os.close, self._fd)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._mmap))
        self._met = bytearray(-(-size_bytes // UNIT_BYTES))
        _libc.madvise(self._address, size_bytes, MADV_HUGEPAGE)  # where the system has them for shared memory

    def owner(self, offset: int, size_bytes: int) -> Any:
        """An object that stands for a part of the arena: views of it keep it alive. It can be weakly referred to."""
        return (ctypes.c_char * size_bytes).from_buffer(self._mmap, offset)

    def private(self, offset: int, size_bytes: int, owner: object) -> memoryview:
        """A part of the arena that can be written to: each page is shared until then, and our own afterwards.

        ``owner``, of the same part, lives as long as a view does.
        """
        begin = offset - offset % mmap.ALLOCATIONGRANULARITY
        pages = _Private(self._fd, offset + size_bytes - begin, access=mmap.ACCESS_COPY, offset=begin)
        pages.owner = owner
        return memoryview(pages)[offset - begin :]

    def view(self, offset: int, size_bytes: int) -> memoryview:
        return memoryview(self._mmap)[offset : offset + size_bytes]

    def populate(self, offset: int, size_bytes: int) -> int:
        """Have the system give us the pages. Returns 0, or the number of its error; never a SIGBUS."""
        if _libc.madvise(self._address + offset, size_bytes, MADV_POPULATE_WRITE) == 0:
            return 0
        return ctypes.get_errno()

    def fill(self, offset: int, buffers: Sequence[memoryview], offsets: Sequence[int]) -> None:
        """Copy flat buffers to these offsets behind ``offset``, where memory has been given to us."""
        with _addresses(buffers) as sources:
            places = zip(offsets, sources, buffers, strict=True)
            copies = [Copy(offset + at, source, view.nbytes) for at, source, view in places]
            total = sum(copy.size_bytes for copy in copies)
            threads = _threads_for(total)
            self._copy_all(_chunks(copies, total // (threads * CHUNKS_A_THREAD)), threads)

    def _copy_all(self, chunks: Iterator[Copy], threads: int) -> None:
        """By this thread, and others beside it. Who comes takes the next chunk, so that nobody waits for a slow one.

        The threads are of the plain kind: starting one of `threading.Thread` does not stand an interrupt.
        """
        if threads == 1:
            self._copy(chunks)
            return
        helpers = _Helpers(threads - 1)
        try:
            helpers.start(self._copy, chunks)
            self._copy(chunks)
        finally:
            deque(chunks, maxlen=0)  # after an interrupt nothing is left to the others
            helpers.wait()

    def _copy(self, chunks: Iterator[Copy]) -> None:
        for target, source, size_bytes in chunks:
            self._meet(target, size_bytes)
            ctypes.memmove(self._address + target, source, size_bytes)

    def _meet(self, offset: int, size_bytes: int) -> None:
        """Meeting pages all at once is several times faster than one by one, while copying."""
        end = offset + size_bytes
        units = range(offset // UNIT_BYTES, -(-end // UNIT_BYTES))
        if all(self._met[unit] for unit in units):
            return
        begin = offset - offset % mmap.PAGESIZE
        self.populate(begin, end - begin)
        for unit in units:
            self._met[unit] |= unit * UNIT_BYTES >= offset and (unit + 1) * UNIT_BYTES <= end


class _Private(mmap.mmap):
    """Pages that are copied when they are written to."""

    owner: object


class _Helpers:
    """Threads that do the same for a moment."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._started: list[int] = []
        self._ended: list[int] = []
        self._progress: queue.SimpleQueue[None] = queue.SimpleQueue()

    def start(self, work: Callable[[Iterator[Copy]], object], chunks: Iterator[Copy]) -> None:
        starts = map(_thread.start_new_thread, (self._help,) * self._count, ((work, chunks),) * self._count)
        self._started.extend(starts)  # one call, so that an interrupt loses none

    def wait(self) -> None:
        """Until all have ended, interrupted or not."""
        interrupt: KeyboardInterrupt | None = None
        while len(self._ended) < len(self._started):
            try:
                self._progress.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _help(self, work: Callable[[Iterator[Copy]], object], chunks: Iterator[Copy]) -> None:
        try:
            work(chunks)
        finally:
            self._ended.append(1)
            self._progress.put(None)


def _chunks(copies: Sequence[Copy], size_bytes: int) -> Iterator[Copy]:
    """May be drawn from by several threads. Cut where units end, so that whole units are met."""
    size_bytes = max(size_bytes - size_bytes % UNIT_BYTES, SMALLEST_CHUNK_BYTES)
    return iter([chunk for copy in copies for chunk in _cut(copy, size_bytes)])


def _cut(copy: Copy, most_bytes: int) -> Iterator[Copy]:
    at = 0
    while at < copy.size_bytes:
        size_bytes = min(most_bytes - (copy.target + at) % UNIT_BYTES, copy.size_bytes - at)
        yield Copy(copy.target + at, copy.source + at, size_bytes)
        at += size_bytes


def _threads_for(size_bytes: int) -> int:
    if size_bytes < THREADED_BYTES:
        return 1
    return min(MOST_THREADS, len(os.sched_getaffinity(0)), size_bytes // (THREADED_BYTES // 2))


# ---- addresses ------------------------------------------------------------------------------------------


class _Buffer(ctypes.Structure):
    """``Py_buffer`` of the C API."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get_buffer: Final = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int)
_release_buffer: Final = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_Buffer),)
_release_buffer.restype = None


@contextmanager
def _addresses(buffers: Sequence[memoryview]) -> Iterator[list[int]]:
    """Where flat buffers begin; they stay there meanwhile. Python tells it of writable ones only."""
    held: list[_Buffer] = []
    try:
        for view in buffers:
            buffer = _Buffer()
            _get_buffer(view, ctypes.byref(buffer), 0)
            held.append(buffer)
        yield [buffer.buf or 0 for buffer in held]
    finally:
        for buffer in held:
            _release_buffer(ctypes.byref(buffer))
