"""What engines have started and left behind: the members of their process groups.

They are asked to end, and killed if they have not a moment later. The moment is for resource trackers, such as those
of `multiprocessing` and loky: they ignore SIGTERM, since they live to remove what their dead program has left in
shared memory, and end by themselves when they have.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from typing import Final

GRACE_S: Final = 0.5
LOOK_S: Final = 0.005


class Groups:
    """The process groups of engines that have ended, as long as somebody is in them.

    A group's number is not given to another process while the group has members, so none is signalled by mistake
    unless it empties and its number comes round again within `GRACE_S`.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def end(self, group: int, now: float) -> None:
        """Ask the members of a group, whose leader has been waited for, to end."""
        if _signal(group, signal.SIGTERM):
            self._until[group] = now + GRACE_S

    def look(self, now: float) -> None:
        """Kill what has had its moment."""
        for group in [group for group, until in self._until.items() if until <= now]:
            del self._until[group]
            _signal(group, signal.SIGKILL)

    def due_s(self, now: float) -> float | None:
        """Until `look` has something to do; None when nobody is left."""
        return max(0.0, min(self._until.values()) - now) if self._until else None

    def end_all(self, groups: Iterable[int]) -> None:
        """As `end` for all of these; returns when nobody is left in any group."""
        for group in groups:
            self.end(group, time.monotonic())
        while self._until:
            for group in list(self._until):
                if not _signal(group, 0):
                    del self._until[group]
            self.look(time.monotonic())
            if self._until:
                time.sleep(LOOK_S)


def _signal(group: int, number: int) -> bool:
    """Whether there was somebody to be signalled."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
