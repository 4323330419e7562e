"""What a node does about the locks and names of processes that have ended.

A lock whose holder was killed in the few instructions between taking it and writing himself in names nobody. Such a
one is given back when it has not changed for a while.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fibernb.model import EngineId
from fibernb.store import names
from fibernb.store.holders import is_process, lives, owner_of_engine, owners, take_introduction, token_of
from fibernb.store.lock_page import HOLDER, TIMES, LockPage, has_page, is_taken, open_page, release

BUSY: Final = 0.1  # share of the node's time that it may look for locks
CLEAN_S: Final = 10.0  # between two removals of names
STRANGERS_S: Final = 1.0  # between two looks at processes that are no children of the node
SUSPECT_S: Final = 1.0  # for which a lock must be taken by nobody
NAMES_STAY_S: Final = 60.0  # after the end of who gave them: they may be on their way to somebody


class _Suspect(NamedTuple):
    name: str
    times: int  # that it had been taken
    holder: str
    due: float


class LockKeeper:
    """Gives back what ended engines held.

    Parameters
    ----------
    directory : of the cluster.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._prefix = names.prefix_of(directory)
        self._suspects: list[_Suspect] = []
        self._ended: dict[str, str] = {}  # owners whose locks have not been looked for yet, and what they were called
        self._search_due = 0.0
        self._strangers_due = 0.0
        self._clean_due = 0.0
        self._old: list[tuple[float, str]] = []  # when to remove the names of which owner

    def begin(self) -> None:
        """To be called before there are engines: those of a node before this one have ended."""
        self._end_of([owner for owner in owners(self._directory) if not is_process(owner)], time.monotonic())

    def ended(self, engines: Iterable[EngineId]) -> None:
        """These engines have ended, and with them all that they had started."""
        self._end_of([owner_of_engine(engine) for engine in engines], time.monotonic())

    def due_s(self, now: float) -> float | None:
        """In how many seconds to `look`; None: no need."""
        due = [suspect.due for suspect in self._suspects] + ([self._search_due] if self._ended else [])
        return max(0.0, min(due) - now) if due else None

    def look(self, now: float) -> None:
        """At the locks of the ended and at those that name nobody; now and then, at who is no child of the node."""
        if self._ended and now >= self._search_due:
            self._search(now)
        self._look_at_suspects(now)
        if now >= self._clean_due:
            self._clean_due = now + CLEAN_S
            self._remove_old_names(now)
        if now >= self._strangers_due:
            self._strangers_due = now + STRANGERS_S
            self._end_of([owner for owner in owners(self._directory) if self._is_gone(owner)], now)

    def _is_gone(self, owner: str) -> bool:
        return is_process(owner) and not lives(self._directory, token_of(owner))

    def _look_at_suspects(self, now: float) -> None:
        due = [suspect for suspect in self._suspects if suspect.due <= now]
        self._suspects = [suspect for suspect in self._suspects if suspect.due > now]
        for suspect in due:
            page = open_page(names.semaphore_file(suspect.name))
            if page is not None and page.words[TIMES] == suspect.times and _names_nobody(suspect.name, page):
                _give_back(suspect.name, page, suspect.holder)

    def end(self) -> None:
        """The cluster ends: nothing stays."""
        names.unlink_all(self._prefix)

    def _end_of(self, owners_that_ended: list[str], now: float) -> None:
        found = {owner: take_introduction(self._directory, owner) for owner in owners_that_ended}
        self._old += [(now + NAMES_STAY_S, owner) for owner, text in found.items() if text is not None]
        self._ended.update({owner: text for owner, text in found.items() if text})
        if self._ended and now >= self._search_due:
            self._search(now)

    def _search(self, now: float) -> None:
        """For what the ended held. Not again too soon: many may end, and there may be many locks."""
        begun = time.monotonic()
        holders = {token_of(owner): text for owner, text in self._ended.items()}
        self._ended.clear()
        for name, page in self._locks():
            holder = page.words[HOLDER]
            if holder in holders:
                _give_back(name, page, holders[holder])
            elif _names_nobody(name, page):
                whose = " or ".join(holders.values())
                self._suspects.append(_Suspect(name, page.words[TIMES], whose, now + SUSPECT_S))
        self._search_due = now + (time.monotonic() - begun) / BUSY

    def _locks(self) -> Iterator[tuple[str, LockPage]]:
        """Each by one of its names."""
        seen: set[int] = set()
        for file in names.semaphore_files(self._prefix):
            page = open_page(file.path) if file.inode() not in seen and has_page(file) else None
            if page is not None:
                seen.add(file.inode())
                yield "/" + file.name.removeprefix(names.SEMAPHORE), page

    def _remove_old_names(self, now: float) -> None:
        due = [owner for when, owner in self._old if when <= now]
        self._old = [(when, owner) for when, owner in self._old if when > now]
        if due:
            names.unlink_all(*(f"{self._prefix}{owner}-" for owner in due))


def _names_nobody(name: str, page: LockPage) -> bool:
    return not page.words[HOLDER] and is_taken(name)


def _give_back(name: str, page: LockPage, holder: str) -> None:
    page.abandon(holder)
    release(name)
