from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fibernb.collectives.board import TEXT_BYTES, Board, Cause
from fibernb.collectives.fates import Fates
from fibernb.collectives.meeting import board_path, socket_path


@pytest.fixture
def boards(tmp_path: Path) -> tuple[Board, Board]:
    """The same one, as two processes see it."""
    return Board(tmp_path / "board", 3), Board(tmp_path / "board", 3, make=False)


def test_its_room_is_on_the_disk_before_anybody_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes to a page of it that a full disk has no room for is killed, be it a notebook's kernel."""
    Board(tmp_path / "board", 100)
    status = (tmp_path / "board").stat()
    assert status.st_blocks * 512 >= status.st_size > 0

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        Board(tmp_path / "other", 100)


def test_nothing_is_known_at_first(boards: tuple[Board, Board]) -> None:
    board, _ = boards
    assert [board.fate(position) for position in range(3)] == [None] * 3
    assert [board.cause(position) for position in range(3)] == [None] * 3
    assert board.lost(1) is None


def test_ends_count_for_what_was_not_completed(boards: tuple[Board, Board]) -> None:
    here, there = boards
    here.note_done(1, 2)
    here.note_end(1, "has ended")
    assert there.fate(1) == "has ended"
    assert there.lost(2) is None
    assert there.lost(3) == Cause(1, "has ended")


def test_the_first_cause_stays_and_is_told_better_by_its_end(boards: tuple[Board, Board]) -> None:
    here, there = boards
    here.note_cause(0, Cause(2, "has died"))
    here.note_cause(0, Cause(1, "too late"))
    assert there.cause(0) == there.lost(1) == Cause(2, "has died")
    here.note_end(2, "was killed")
    assert there.lost(1) == Cause(2, "was killed")


def test_long_texts_are_cut(boards: tuple[Board, Board]) -> None:
    here, there = boards
    here.note_end(0, "ü" * 1000)
    here.note_cause(0, Cause(1, "x" * 1000))
    fate = there.fate(0)
    assert fate is not None
    assert fate.startswith("üüü")
    assert there.cause(0) == Cause(1, "x" * TEXT_BYTES)
    assert there.fate(1) is None


def test_a_board_may_have_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Board(tmp_path / "board", 3, make=False)


def test_fates(tmp_path: Path) -> None:
    fates = Fates(tmp_path, "t", 3)
    assert not list(tmp_path.iterdir())
    fates.note(1, "has ended")
    fates.note(1, "has ended twice")
    board = Board(board_path(tmp_path, "t"), 3, make=False)
    assert board.fate(1) == "has ended"
    socket_path(tmp_path, "t", 2).touch()  # left by a member that was killed
    fates.give_up("has gone")
    assert [board.fate(position) for position in range(3)] == ["has gone", "has ended", "has gone"]
    assert not list(tmp_path.iterdir())


def test_fates_that_are_looked_for_at_once(tmp_path: Path) -> None:
    Fates(tmp_path, "t", 3, now=True)
    assert Board(board_path(tmp_path, "t"), 3, make=False).fate(0) is None
