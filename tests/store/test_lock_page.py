"""What stands behind the semaphore of a lock."""

from __future__ import annotations

from _multiprocessing import SemLock  # type: ignore[import-not-found]  # it has no types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fibernb.store import lock_page, names
from fibernb.store.lock_page import ABANDONED, HOLDER, TEXT_BYTES, TIMES, LockPage

Made = tuple[str, Any, LockPage]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    prefix = names.prefix_of(tmp_path)
    name = f"/{prefix}e1-lock"
    semaphore = SemLock(1, 1, 1, name, False)
    page = lock_page.open_page(names.semaphore_file(name))
    assert page is not None
    yield name, semaphore, page
    names.unlink_all(prefix)


def test_all_who_open_the_page_see_the_same(made: Made) -> None:
    name, semaphore, page = made
    other = lock_page.open_page(names.semaphore_file(name))
    assert other is not None
    page.words[HOLDER], page.words[TIMES] = 7, 2**63
    assert [other.words[HOLDER], other.words[TIMES]] == [7, 2**63]
    assert semaphore._get_value() == 1
    assert semaphore.acquire(False)
    assert [page.words[HOLDER], page.words[ABANDONED]] == [7, 0]


def test_only_locks_have_a_page(made: Made, tmp_path: Path) -> None:
    prefix = names.prefix_of(tmp_path)
    SemLock(1, 1, 1, f"/{prefix}e1-other", False)
    SemLock(1, 1, 1, f"/{prefix}e1-condition", False)
    lock_page.map_behind(names.semaphore_file(f"/{prefix}e1-condition"), 16_384)
    files = list(names.semaphore_files(prefix))
    assert [file.name for file in files if lock_page.has_page(file)] == [f"{names.SEMAPHORE}{made[0][1:]}"]
    assert lock_page.open_page(names.semaphore_file(f"/{prefix}e1-none")) is None
    fresh = list(names.semaphore_files(prefix))
    names.unlink_all(prefix)
    assert not any(lock_page.has_page(file) for file in fresh)


@pytest.mark.parametrize("holder", ["Process-1 (pid 5)", "ä" * 1000])
def test_the_next_one_is_told_once_who_has_died(holder: str, made: Made) -> None:
    page = made[2]
    page.words[HOLDER] = 7
    page.abandon(holder)
    assert page.words[HOLDER] == 0
    assert page.words[ABANDONED]
    assert page.take_abandoned() == holder[: TEXT_BYTES // 2]
    assert not page.words[ABANDONED]


def test_a_lock_is_given_back_in_place_of_its_holder(made: Made) -> None:
    name, semaphore, _ = made
    assert not lock_page.is_taken(name)
    semaphore.acquire()
    assert lock_page.is_taken(name)
    lock_page.release(name)
    lock_page.release(name)
    assert semaphore._get_value() == 1
    names.unlink_semaphore(name)
    lock_page.release(name)
    assert not lock_page.is_taken(name)
