"""Who sleeps in a condition, so that who wakes them up does not wait for the dead.

Whoever notifies waits until each of those that he woke has said so. One who was killed asleep never does; then he is
counted as if he had.
"""

from __future__ import annotations

import threading
from typing import Final

from fibernb.multiprocessing.naming import introduce_self, token
from fibernb.multiprocessing.places import home
from fibernb.store.holders import lives
from fibernb.store.lock_page import map_behind
from fibernb.store.names import semaphore_file

PAGE_BYTES: Final = 16_384
WORDS_AT: Final = 128  # behind what is the semaphore's
WOKEN: Final = 1 << 63  # with a token: has woken up, and said so


class Sleepers:
    """The sleepers of one condition, in the page of its semaphore that they sleep on: a token for each.

    Where there is no such page, and when it is full, nobody is written down.

    Parameters
    ----------
    name : of that semaphore.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._words: memoryview | None = None
        self._mine: dict[int, int] = {}  # thread to its place in the page

    def enter(self) -> None:
        """This thread is about to sleep. Its process holds the condition's lock."""
        introduce_self(takes_locks=False)
        words = self._page()
        free = next((index for index, word in enumerate(words) if not word), None)
        if free is not None:
            words[free] = token()
            self._mine[threading.get_ident()] = free

    def wake(self) -> None:
        """This thread has woken up, and said so."""
        mine = self._mine.get(threading.get_ident())
        if mine is not None:
            self._page()[mine] |= WOKEN

    def leave(self) -> None:
        """This thread holds the lock again."""
        mine = self._mine.pop(threading.get_ident(), None)
        if mine is not None:
            self._page()[mine] = 0

    def bury(self) -> bool:
        """Forget one who has died asleep. Called by who holds the lock. False when there is none."""
        words = self._page()
        for index, word in enumerate(words):
            if word and not word & WOKEN and not lives(home(), word):
                words[index] = 0
                return True
        return False

    def _page(self) -> memoryview:
        if self._words is None:
            memory = map_behind(semaphore_file(self._name), PAGE_BYTES)
            self._words = memoryview(b"").cast("Q") if memory is None else memory[WORDS_AT:].cast("Q")
        return self._words
