"""How long the items of a function take, as measured, and how many of them travel together for that. Pure."""

from __future__ import annotations

from typing import Final

CHUNK_S: Final = 0.004  # work that travels in one message
AHEAD_S: Final = 0.05  # items that take longer wait at the owner, for whoever is idle first
CHUNK_BYTES: Final = 2**18
CHUNK_ITEMS: Final = 2_000
NEWEST_SHARE: Final = 0.25  # of the last measurement in the average


class Pace:
    """The average of what was measured; newer measurements count more.

    ``most`` limits how many items travel together: 1 for chunks whose size the user has given.
    """

    def __init__(self, most: int = CHUNK_ITEMS) -> None:
        self.item_s: float | None = None  # seconds; None: not known yet
        self.item_bytes = 0.0
        self._most = most

    def note(self, items: int, seconds: float) -> None:
        """So many items took so long together."""
        measured = seconds / items
        self.item_s = measured if self.item_s is None else _newer(self.item_s, measured)

    def note_size(self, items: int, size_bytes: int) -> None:
        """So many items were so large together."""
        measured = size_bytes / items
        self.item_bytes = measured if not self.item_bytes else _newer(self.item_bytes, measured)

    def fitting(self, room_s: float = CHUNK_S) -> int:
        """How many items fit into so many seconds: 0 or more; 0 when it is not known."""
        if self.item_s is None:
            return 0
        by_bytes = self._most if self.item_bytes <= 0 else int(CHUNK_BYTES / self.item_bytes)
        by_time = self._most if self.item_s <= 0 else int(room_s / self.item_s)
        return max(0, min(self._most, by_bytes, by_time))

    def is_short(self) -> bool:
        """Whether one of its items may wait behind another on a worker, so that the worker need not wait for it."""
        return self.item_s is not None and self.item_s <= AHEAD_S


def _newer(average: float, measured: float) -> float:
    return average + NEWEST_SHARE * (measured - average)


class Paces:
    """The paces of one function: of its calls, and of chunks of those."""

    def __init__(self) -> None:
        self.calls = Pace()
        self._chunks: dict[int, Pace] = {}

    def of_chunks(self, size: int) -> Pace:
        """The pace of chunks of a size that the user has chosen: each is one item."""
        return self._chunks.setdefault(size, Pace(1))
