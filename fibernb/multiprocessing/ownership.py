"""Taking and giving back a lock so that others can see who holds it."""

from __future__ import annotations

import os
import warnings
from multiprocessing.synchronize import RECURSIVE_MUTEX  # type: ignore[attr-defined]  # not in its stub
from typing import Any, Final

from fibernb.multiprocessing.naming import introduce_self, token
from fibernb.store.lock_page import ABANDONED, HOLDER, TIMES, LockPage

CALLER: Final = 3  # frames from a warning to whoever takes the lock


class Ownership:
    """The methods of one lock in this process.

    Parameters
    ----------
    semaphore : the library's semaphore.
    page : says who holds the lock.
    """

    __slots__ = ("_give", "_is_recursive", "_page", "_pid", "_semaphore", "_take", "_token", "_words")

    def __init__(self, semaphore: Any, page: LockPage) -> None:
        self._semaphore = semaphore
        self._take = semaphore.acquire
        self._give = semaphore.release
        self._page = page
        self._words = page.words
        self._is_recursive = semaphore.kind == RECURSIVE_MUTEX
        self._token = 0
        self._pid = 0

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """As the library's. Warns when the last holder has died without giving the lock back."""
        if _pid != self._pid:
            self._begin()
        if not self._take(block, timeout):
            return False
        words = self._words
        words[HOLDER] = self._token
        words[TIMES] += 1
        if words[ABANDONED]:
            self._tell()
        return True

    def release(self) -> None:
        """As the library's."""
        if not self._is_recursive or (self._semaphore._is_mine() and self._semaphore._count() == 1):
            self._words[HOLDER] = 0
        self._give()

    def _begin(self) -> None:
        """The first time in this process."""
        introduce_self(takes_locks=True)
        self._token, self._pid = token(), os.getpid()

    def _tell(self) -> None:
        text = f"{self._page.take_abandoned()} died holding this lock: what the lock protects may be half changed"
        try:
            warnings.warn(text, RuntimeWarning, stacklevel=CALLER)
        except BaseException:  # warnings are errors here: then the caller does not have the lock
            self.release()
            raise


_pid = os.getpid()


def _forked() -> None:
    global _pid
    _pid = os.getpid()


os.register_at_fork(after_in_child=_forked)
