"""What those who start the members of a ring do for it: they note on its board how each one ends."""

from __future__ import annotations

import threading
from pathlib import Path

from fibernb.collectives.board import Board
from fibernb.collectives.meeting import board_path, socket_path


class Fates:
    """The board of a ring from the outside; gone when the last member has ended.

    Parameters
    ----------
    directory, token, size : of the ring; see `fibernb.collectives.meeting.Place`.
    now : make the board now. Otherwise whoever needs it first does: a member, or this with the first end.
    """

    def __init__(self, directory: str | Path, token: str, size: int, *, now: bool = False) -> None:
        self._directory = directory
        self._token = token
        self._size = size
        self._living = set(range(size))
        self._is_tidy = True  # members that ended by themselves have removed their socket files
        self._board: Board | None = None
        self._lock = threading.Lock()
        if now:
            self._open()

    def note(self, position: int, fate: str, *, died: bool = False) -> None:
        """A member has ended, or was killed. ``fate`` completes the sentence that begins with its name."""
        with self._lock:
            self._is_tidy &= not died
            if position not in self._living:
                return
            self._open().note_end(position, fate)
            self._living.discard(position)
            if not self._living:
                self._remove()

    def give_up(self, fate: str) -> None:
        """Note this for all who have not ended."""
        for position in sorted(self._living):
            self.note(position, fate, died=True)

    def _open(self) -> Board:
        if self._board is None:
            self._board = Board(board_path(self._directory, self._token), self._size)
        return self._board

    def _remove(self) -> None:
        """The files, also what killed members have left."""
        if self._board is not None:
            self._board.close()
        board_path(self._directory, self._token).unlink(missing_ok=True)
        for position in range(self._size) if not self._is_tidy else ():
            socket_path(self._directory, self._token, position).unlink(missing_ok=True)
