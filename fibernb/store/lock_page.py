"""Who holds a lock: written behind the semaphore of the lock, in the same page of memory.

It lives as long as the semaphore does and is seen by all who have it. Whoever takes the lock writes himself in, whoever
gives it back writes himself out first; so there are moments when a lock is taken and names nobody.
"""

from __future__ import annotations

import mmap
import os
from _multiprocessing import SemLock  # type: ignore[import-not-found]  # it has no types
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

PAGE_BYTES: Final = 1024  # and no other semaphore's file is that long
TEXT_BYTES: Final = 512
HOLDER, TIMES, ABANDONED = 16, 17, 18  # 64-bit words, behind 128 bytes that are the semaphore's
TEXT_AT: Final = 256
SEMAPHORE_KIND: Final = 1  # as the standard library counts: any thread may release it


def has_page(file: os.DirEntry[str]) -> bool:
    """Whether this semaphore is a lock's."""
    try:
        return file.stat().st_size == PAGE_BYTES
    except FileNotFoundError:
        return False


def open_page(path: str) -> LockPage | None:
    """The page of a lock, made if it is not there yet, by the file of its semaphore; None when there is none."""
    memory = map_behind(path, PAGE_BYTES)
    return None if memory is None else LockPage(memory)


def map_behind(path: str, size_bytes: int) -> memoryview | None:
    """The file of a semaphore, made so long; None when there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        os.ftruncate(descriptor, size_bytes)
        return memoryview(mmap.mmap(descriptor, size_bytes))
    finally:
        os.close(descriptor)


class LockPage:
    """The page of one lock.

    Parameters
    ----------
    memory : of the whole page.

    ``words``: `HOLDER` is the token of who holds the lock, 0 for nobody; `TIMES`, how often it was taken; `ABANDONED`,
    the length in bytes of the text about a holder that died, until the next one has read it.
    """

    __slots__ = ("_memory", "words")

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self.words = memory.cast("Q")

    def abandon(self, holder: str) -> None:
        """Nobody holds the lock any more, since its holder has died."""
        text = holder.encode()[:TEXT_BYTES]
        self._memory[TEXT_AT : TEXT_AT + len(text)] = text
        self.words[ABANDONED] = len(text)
        self.words[HOLDER] = 0

    def take_abandoned(self) -> str:
        """Who has died holding the lock. To be called by its holder, and only once for each death."""
        length = self.words[ABANDONED]
        self.words[ABANDONED] = 0
        return bytes(self._memory[TEXT_AT : TEXT_AT + length]).decode(errors="replace")


def is_taken(name: str) -> bool:
    """Whether somebody has the lock of this name; False when it has gone."""
    return bool(_with_semaphore(name, lambda semaphore: semaphore._get_value() == 0))


def release(name: str) -> None:
    """Give back a lock in place of its holder; harmless when it is free or has gone."""
    with suppress(ValueError):
        _with_semaphore(name, lambda semaphore: semaphore.release())


def _with_semaphore(name: str, use: Callable[[Any], bool | None]) -> bool | None:
    try:
        return use(SemLock._rebuild(0, SEMAPHORE_KIND, 1, name))
    except FileNotFoundError:
        return None
