"""Names of semaphores, and their end."""

from __future__ import annotations

from _multiprocessing import SemLock  # type: ignore[import-not-found]  # it has no types
from collections.abc import Iterator
from pathlib import Path

import pytest

from fibernb.errors import NotConnected
from fibernb.store import names


@pytest.fixture
def prefix(tmp_path: Path) -> Iterator[str]:
    found = names.prefix_of(tmp_path)
    yield found
    names.unlink_all(found)


def files(prefix: str) -> list[str]:
    return sorted(entry.name for entry in names.semaphore_files(prefix))


def test_a_directory_has_one_prefix_by_whatever_path(tmp_path: Path, prefix: str) -> None:
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    assert names.prefix_of(link) == names.prefix_of(str(tmp_path)) == prefix
    assert names.prefix_of(tmp_path.parent) != prefix


def test_a_cluster_that_has_ended_has_none(tmp_path: Path) -> None:
    with pytest.raises(NotConnected, match="has ended"):
        names.prefix_of(tmp_path / "gone")


def test_a_semaphore_lives_as_long_as_it_has_a_name(prefix: str) -> None:
    first, second = f"/{prefix}e1-a", f"/{prefix}e2-b"
    made = SemLock(1, 1, 1, first, False)
    assert names.link_semaphore(first, second)
    names.unlink_semaphore(first)
    names.unlink_semaphore(first)
    assert files(prefix) == [names.SEMAPHORE + second[1:]]
    SemLock._rebuild(0, 1, 1, second).acquire()
    assert made._is_zero()
    assert not names.link_semaphore(first, f"/{prefix}e3-c")
    assert [Path(names.semaphore_file(name)).exists() for name in (first, second)] == [False, True]


def test_everything_goes_by_its_prefix(tmp_path: Path, prefix: str) -> None:
    SemLock(1, 1, 1, f"/{prefix}e1-a", False)
    SemLock(1, 1, 1, f"/{prefix}e2-b", False)
    other = Path(names.SHARED_MEMORY) / f"{prefix}memory"
    other.touch()
    names.unlink_all(f"{prefix}e1-")
    assert files(prefix) == [f"{names.SEMAPHORE}{prefix}e2-b"]
    names.unlink_all_of(tmp_path)
    assert files(prefix) == []
    assert not other.exists()
    names.unlink_all_of(tmp_path / "gone")


def test_where_the_system_shows_no_files_there_are_none(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SHARED_MEMORY", "/nowhere")
    assert not names.are_shown()
    assert files(prefix) == []
    assert not names.link_semaphore(f"/{prefix}e1-a", f"/{prefix}e1-b")
