"""The arena and the spill file. Neither has a name: with the last process that has it open or mapped, it is gone."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from fibernb.store.allocator import Extent
from fibernb.store.mapping import Mapping
from fibernb.store.memory import Account

ARENA_NAME: Final = "fibernb-store"
STEP_BYTES: Final = 16 * 2**20  # of the arena, for which memory is asked at a time,
AHEAD_STEP_BYTES: Final = 4 * 2**20  # or ahead of need
THREADS: Final = 2
RESERVE_SHARE: Final = 0.1  # of the memory stays free when the arena grows for a value, so that no engine is stopped,
AHEAD_RESERVE_SHARE: Final = 0.25  # or ahead of need
COPY_BYTES: Final = 8 * 2**20
KEEP_SIZE_AND_PUNCH_HOLE: Final = 1 | 2
MEGABYTE: Final = 1_000_000

_libc: Final = ctypes.CDLL(None, use_errno=True)


class Arena:
    """Shared memory that is given out only where the system has really provided it, so that nobody gets a SIGBUS.

    Parameters
    ----------
    size_bytes : to which it may grow.
    directory : where it is a file; empty: memory without one.
    accounts : reads how much memory there is.
    """

    def __init__(self, size_bytes: int, directory: str, accounts: Callable[[], list[Account]]) -> None:
        self.fd = _nameless(directory) if directory else os.memfd_create(ARENA_NAME, os.MFD_CLOEXEC)
        os.ftruncate(self.fd, size_bytes)
        self._mapping = Mapping(self.fd, size_bytes)
        self._accounts = accounts
        self._threads = ThreadPoolExecutor(THREADS, "fibernb-warm")
        self.size_bytes = 0  # of the part that has memory
        self._lock = threading.Lock()

    def grow(self, size_bytes: int) -> str:
        """Provide memory up to this size, as far as there is some. Returns what the problem is, if there is one."""
        return self._grow(size_bytes, STEP_BYTES * THREADS, RESERVE_SHARE, self._provide)

    def grow_ahead(self, size_bytes: int) -> str:
        """As `grow`, for what nobody waits for: by the calling thread alone, a little at a time.

        Another thread may call `grow` meanwhile, but not `shrink`.
        """
        return self._grow(size_bytes, AHEAD_STEP_BYTES, AHEAD_RESERVE_SHARE, self._provide_part)

    def _grow(self, size_bytes: int, step_bytes: int, reserve: float, provide: Callable[[int, int], str]) -> str:
        while (begin := self.size_bytes) < size_bytes:
            step = min(step_bytes, size_bytes - begin)
            problem = self._short_of(step, reserve) or provide(begin, step)
            if problem:
                return problem
            with self._lock:
                self.size_bytes = max(self.size_bytes, begin + step)
        return ""

    def shrink(self, size_bytes: int) -> None:
        """Give back the memory behind this size."""
        if size_bytes < self.size_bytes:
            punch(self.fd, Extent(size_bytes, self.size_bytes - size_bytes))
            self.size_bytes = size_bytes

    def view(self, extent: Extent) -> memoryview:
        return self._mapping.view(extent.offset, extent.size_bytes)

    def _short_of(self, step: int, share: float) -> str:
        for account in self._accounts():
            reserve = int(account.limit_bytes * share)
            if account.free_bytes < step + reserve:
                return (
                    f"{account.what} is short of memory: {account.used_bytes / MEGABYTE:,.0f} of "
                    f"{account.limit_bytes / MEGABYTE:,.0f} MB are in use"
                )
        return ""

    def _provide(self, begin: int, step: int) -> str:
        half = -(-step // THREADS)
        half += -half % os.sysconf("SC_PAGESIZE")
        end = begin + step
        parts = [(at, min(half, end - at)) for at in range(begin, end, half)]
        problems = list(self._threads.map(lambda part: self._provide_part(*part), parts))
        return next((problem for problem in problems if problem), "")

    def _provide_part(self, offset: int, size_bytes: int) -> str:
        """Fault the pages in, which gives large ones where there are such; then make certain that all are there."""
        self._mapping.populate(offset, size_bytes)
        try:
            os.posix_fallocate(self.fd, offset, size_bytes)
        except OSError as error:
            return f"the system gives the object store no more memory: {error.strerror}"
        return ""


class SpillFile:
    """Where values go that the arena has no room for.

    Parameters
    ----------
    directory : on a disk.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._fd = _nameless(directory)

    def write(self, source: memoryview, target: int) -> str:
        """Returns what the problem is, if there is one."""
        try:
            for at in range(0, len(source), COPY_BYTES):
                _write_all(self._fd, source[at : at + COPY_BYTES], target + at)
        except OSError as error:
            return f"{self._directory}: {error.strerror}"
        return ""

    def read(self, source: int, target: memoryview) -> str:
        """Returns what the problem is, if there is one."""
        at = 0
        while at < len(target):
            try:
                count = os.preadv(self._fd, [target[at : at + COPY_BYTES]], source + at)
            except OSError as error:
                return f"{self._directory}: {error.strerror}"
            if count == 0:
                return f"{self._directory}: the spill file is shorter than it was"
            at += count
        return ""

    def punch(self, extent: Extent) -> None:
        punch(self._fd, extent)


def punch(fd: int, extent: Extent) -> None:
    """Give a part of a file back to the system; where that cannot be done, it stays until the file goes."""
    _libc.fallocate(
        fd, KEEP_SIZE_AND_PUNCH_HOLE, ctypes.c_longlong(extent.offset), ctypes.c_longlong(extent.size_bytes)
    )


def _write_all(fd: int, data: memoryview, offset: int) -> None:
    while len(data):
        count = os.pwrite(fd, data, offset)
        data, offset = data[count:], offset + count


def _nameless(directory: str) -> int:
    """A new file that has no name."""
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except (AttributeError, OSError):  # a system or file system that cannot do that
        fd, path = tempfile.mkstemp(prefix="fibernb-", dir=directory)
        os.unlink(path)
        return fd
