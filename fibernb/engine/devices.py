"""Which gpus the code of this engine sees."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "CUDA_VISIBLE_DEVICES"


class Devices:
    """Sets `VARIABLE` for calls that were given gpus, and puts it back for those that were not."""

    def __init__(self) -> None:
        self.assigned: tuple[int, ...] = ()
        self._before: str | None = None

    def show(self, gpus: tuple[int, ...]) -> None:
        """These are what the next calls may use, by their number on this host; none: as it was in the beginning."""
        if gpus == self.assigned:
            return
        if not self.assigned:
            self._before = os.environ.get(VARIABLE)
        self.assigned = gpus
        if gpus:
            os.environ[VARIABLE] = ",".join(_names(gpus, self._before))
        elif self._before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = self._before


def _names(gpus: tuple[int, ...], visible: str | None) -> list[str]:
    """What the driver calls them; where this process sees some of the host's only, they are counted among those."""
    seen = [name.strip() for name in (visible or "").split(",") if name.strip()]
    return [seen[gpu] if gpu < len(seen) else str(gpu) for gpu in gpus]
