"""The node gives back what the dead held. Here the dead are made up, and so is the time."""

from __future__ import annotations

import itertools
import subprocess
import time
from _multiprocessing import SemLock  # type: ignore[import-not-found]  # it has no types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fibernb.engine import lock_keeper
from fibernb.engine.lock_keeper import NAMES_STAY_S, SUSPECT_S, LockKeeper
from fibernb.store import names
from fibernb.store.holders import introduce, owner_of_engine, owner_of_process, token_of
from fibernb.store.lock_page import ABANDONED, HOLDER, TIMES, LockPage, open_page


class Locks:
    """Locks of a cluster, whose holders are whoever the test says."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.prefix = names.prefix_of(directory)

    def make(self, owner: str, name: str) -> tuple[Any, LockPage]:
        introduce(str(self.directory), owner, f"{owner} itself")
        full_name = f"/{self.prefix}{owner}-{name}"
        semaphore = SemLock(1, 1, 1, full_name, False)
        page = open_page(names.semaphore_file(full_name))
        assert page is not None
        return semaphore, page

    def names(self) -> list[str]:
        return sorted(entry.name.partition(self.prefix)[2] for entry in names.semaphore_files(self.prefix))


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[Locks]:
    found = Locks(tmp_path)
    yield found
    names.unlink_all(found.prefix)


@pytest.fixture
def keeper(tmp_path: Path) -> LockKeeper:
    return LockKeeper(tmp_path)


def hold(lock: tuple[Any, LockPage], owner: str) -> None:
    semaphore, page = lock
    semaphore.acquire()
    page.words[HOLDER] = token_of(owner)
    page.words[TIMES] += 1


def is_free(lock: tuple[Any, LockPage]) -> bool:
    return bool(lock[0]._get_value() == 1)


def test_what_an_ended_engine_held_is_given_back(locks: Locks, keeper: LockKeeper) -> None:
    held, others, free = locks.make("e1", "held"), locks.make("e1", "others"), locks.make("e1", "free")
    hold(held, "e1")
    hold(others, "e2")
    names.link_semaphore(f"/{locks.prefix}e1-held", f"/{locks.prefix}e2-held")  # as other processes call it
    keeper.ended([1])
    assert [is_free(held), is_free(others), is_free(free)] == [True, False, True]
    assert held[1].take_abandoned() == "e1 itself"
    assert [held[1].words[HOLDER], held[1].words[ABANDONED]] == [0, 0]
    assert free[1].words[ABANDONED] == 0


def test_who_never_had_a_lock_is_not_looked_for(locks: Locks, keeper: LockKeeper) -> None:
    lock = locks.make("e1", "lock")
    lock[0].acquire()
    keeper.ended([5])
    assert keeper.due_s(0.0) is None


def test_a_lock_that_names_nobody_is_given_back_after_a_while(locks: Locks, keeper: LockKeeper) -> None:
    """Its holder was killed right after he took it, or right before he gave it back."""
    lock = locks.make("e1", "lock")
    lock[0].acquire()
    now = time.monotonic()
    keeper.ended([1])
    due_s = keeper.due_s(now)
    assert due_s is not None
    assert due_s >= SUSPECT_S
    keeper.look(now)
    assert not is_free(lock)
    keeper.look(now + due_s)
    assert is_free(lock)
    assert lock[1].take_abandoned() == "e1 itself"
    assert keeper.due_s(now) is None


@pytest.mark.parametrize("change", ["taken again", "told", "given back", "gone"])
def test_a_lock_that_somebody_uses_is_left_alone(change: str, locks: Locks, keeper: LockKeeper) -> None:
    lock = locks.make("e1", "lock")
    lock[0].acquire()
    keeper.ended([1])
    if change == "taken again":
        lock[1].words[TIMES] += 1
    elif change == "told":
        lock[1].words[HOLDER] = token_of("e2")
    elif change == "given back":
        lock[0].release()
    else:
        names.unlink_semaphore(f"/{locks.prefix}e1-lock")
    before = lock[0]._get_value()
    keeper.look(time.monotonic() + 2 * SUSPECT_S)
    assert lock[0]._get_value() == before
    assert lock[1].words[ABANDONED] == 0


def test_a_new_node_looks_after_the_engines_of_the_one_before(locks: Locks, keeper: LockKeeper) -> None:
    lock = locks.make("e1", "lock")
    hold(lock, owner_of_engine(1))
    keeper.begin()
    assert is_free(lock)


def test_a_client_that_has_died_is_found_soon(locks: Locks, keeper: LockKeeper) -> None:
    client = subprocess.Popen(["sleep", "1000"])
    owner = owner_of_process(client.pid)
    lock = locks.make(owner, "lock")
    hold(lock, owner)
    now = time.monotonic()
    keeper.look(now)
    assert not is_free(lock)
    client.kill()
    client.wait()
    keeper.look(now + lock_keeper.STRANGERS_S)
    assert is_free(lock)


def test_who_has_only_given_names_holds_nothing(locks: Locks, keeper: LockKeeper) -> None:
    locks.make("e1", "lock")[0].acquire()
    introduce(str(locks.directory), "e1", "")
    keeper.ended([1])
    assert keeper.due_s(0.0) is None


def test_a_node_with_much_to_look_for_does_it_now_and_then(
    locks: Locks, keeper: LockKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = locks.make("e1", "lock")
    hold(lock, "e2")
    clock = itertools.count(1000.0, 5.0)  # each search takes five seconds
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    keeper.ended([1])
    introduce(str(locks.directory), "e2", "the holder")
    keeper.ended([2])
    assert not is_free(lock)
    due_s = keeper.due_s(1000.0)
    assert due_s == 5.0 / lock_keeper.BUSY
    keeper.look(1000.0 + due_s)
    assert is_free(lock)


def test_names_of_the_dead_stay_for_a_while(locks: Locks, keeper: LockKeeper) -> None:
    locks.make("e1", "sent")
    locks.make("e2", "own")
    keeper.ended([1])
    assert locks.names() == ["e1-sent", "e2-own"]
    keeper.look(time.monotonic() + NAMES_STAY_S)
    assert locks.names() == ["e2-own"]
    keeper.end()
    assert locks.names() == []
