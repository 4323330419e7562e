"""What the members of a ring know of each other beside what they send: a small file that all of them map.

Whoever started the members notes there how each has ended. A member notes how many collectives it has completed, and,
if it breaks the ring, why. So one that waits in vain can tell for whom, even if that member has never come.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from pathlib import Path
from typing import Final, NamedTuple

TEXT_BYTES: Final = 240
DIED: Final = "has died"

_DONE: Final = struct.Struct("<Q")
_CAUSE: Final = struct.Struct(f"<?i{TEXT_BYTES + 1}p")
_FATE: Final = struct.Struct(f"<?{TEXT_BYTES + 1}p")


class Cause(NamedTuple):
    """Why a ring is broken: the position of the member that it is due to, and what became of it."""

    position: int
    reason: str


class MemberLost(Exception):
    """A collective cannot be completed, since a member has ended or given up."""

    def __init__(self, cause: Cause) -> None:
        self.cause = cause
        super().__init__(cause)


class Board:
    """The file, mapped.

    Parameters
    ----------
    path : where it is.
    size : number of members; a board has the same for all who open it.
    make : whether to make the file when it is not there. Otherwise that raises `FileNotFoundError`.

    Raises OSError when the disk has no room for it.
    """

    def __init__(self, path: Path, size: int, *, make: bool = True) -> None:
        self.size = size
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if make else 0) | os.O_CLOEXEC, 0o600)
        try:
            _take_room(descriptor, size * (_DONE.size + _CAUSE.size + _FATE.size))
            self._memory = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)

    # ---- from the starter ----------------------------------------------------------------------------------

    def note_end(self, position: int, fate: str) -> None:
        """A member has ended. ``fate`` completes the sentence that begins with its name."""
        at = self._fate_at(position)
        _FATE.pack_into(self._memory, at, False, _encoded(fate))
        self._memory[at] = True

    def fate(self, position: int) -> str | None:
        """How a member has ended; None while it lives as far as the starter knows."""
        ended, fate = _FATE.unpack_from(self._memory, self._fate_at(position))
        return fate.decode(errors="replace") if ended else None

    # ---- from the members ----------------------------------------------------------------------------------

    def note_done(self, position: int, collectives: int) -> None:
        """A member has completed so many collectives."""
        _DONE.pack_into(self._memory, position * _DONE.size, collectives)

    def done(self, position: int) -> int:
        """How many collectives a member has completed."""
        done: int = _DONE.unpack_from(self._memory, position * _DONE.size)[0]
        return done

    def note_cause(self, position: int, cause: Cause) -> None:
        """A member gives up, for this reason; the first one stays."""
        if self.cause(position) is None:
            at = self._cause_at(position)
            _CAUSE.pack_into(self._memory, at, False, cause.position, _encoded(cause.reason))
            self._memory[at] = True

    def cause(self, position: int) -> Cause | None:
        """Why a member has given up, if it has."""
        has_one, of, reason = _CAUSE.unpack_from(self._memory, self._cause_at(position))
        return Cause(of, reason.decode(errors="replace")) if has_one else None

    def lost(self, collective: int) -> Cause | None:
        """Why this collective, counted from 1, cannot be completed by all, if that is known."""
        missing = [position for position in range(self.size) if self.done(position) < collective]
        fates = {position: fate for position in missing if (fate := self.fate(position)) is not None}
        causes = (cause for position in missing if (cause := self.cause(position)) is not None)
        first = next(causes, None)
        if first is not None:
            return Cause(first.position, fates.get(first.position, first.reason))
        return next((Cause(position, fate) for position, fate in fates.items()), None)

    def close(self) -> None:
        self._memory.close()

    def _cause_at(self, position: int) -> int:
        return self.size * _DONE.size + position * _CAUSE.size

    def _fate_at(self, position: int) -> int:
        return self.size * (_DONE.size + _CAUSE.size) + position * _FATE.size


def _take_room(descriptor: int, size_bytes: int) -> None:
    """Make the file so long, on the disk: who writes to a page that a full disk has no room for is killed (SIGBUS)."""
    if sys.platform == "linux":
        os.posix_fallocate(descriptor, 0, size_bytes)
    else:
        os.ftruncate(descriptor, size_bytes)


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")[:TEXT_BYTES]
