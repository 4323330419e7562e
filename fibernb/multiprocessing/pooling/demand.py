"""How many workers a pool has that follows its work. Pure."""

from __future__ import annotations

import math
from typing import Final

from fibernb.errors import ConfigError

IDLE_S: Final = 60.0  # as of `%fiber autoscale`: so long a worker is kept that has nothing to do
WORTH_S: Final = 0.1  # of waiting work for which another worker is started


class Demand:
    """Between two bounds.

    Parameters
    ----------
    least, most : how many workers there are at least and at most.
    idle_s : how long fewer have to do before some are let go, in seconds.
    """

    def __init__(self, least: int, most: int, idle_s: float = IDLE_S) -> None:
        self.least = least
        self.most = most
        self._idle_s = idle_s
        self._peak = 0  # of what was needed since `_since`
        self._since: float | None = None

    def wanted(self, *, now: float, current: int, busy: int, items: int, item_s: float | None) -> int:
        """How many workers there should be.

        Parameters
        ----------
        current : how many there are.
        busy : how many of them have something to do.
        items : how many items wait.
        item_s : how long such an item takes, in seconds, if that is known.
        """
        needed = busy + (items if item_s is None else min(items, math.ceil(items * item_s / WORTH_S)))
        needed = max(self.least, min(self.most, needed))
        if needed >= current:
            self._since = None
            return needed
        if self._since is None:
            self._since, self._peak = now, needed
        self._peak = max(self._peak, needed)
        if now - self._since < self._idle_s:
            return current
        self._since = None
        return self._peak

    def look_again_s(self, now: float) -> float | None:
        """When something may change although nothing happens: in so many seconds; None: never."""
        return None if self._since is None else max(0.0, self._since + self._idle_s - now)


def parse(text: str) -> Demand:
    """The bounds of a text such as ``2:16``. Raises `ConfigError` for another."""
    least, colon, most = text.partition(":")
    if not (colon and least.isdecimal() and most.isdecimal() and int(most) >= max(1, int(least))):
        raise ConfigError(
            f"processes cannot be {text!r}. It accepts a number, or bounds such as '2:16' to follow the work."
        )
    return Demand(int(least), int(most))
