"""The hub's log: standard logging into a file that cannot grow without bound."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

MAX_LOG_BYTES: Final = 1_000_000
FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"


class BoundedHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to the standard error stream, which is the log file.

    At its limit the file is copied to ``hub.log.1`` and emptied in place, because the node process writes to it too.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        super().__init__(sys.stderr)
        self._path = path
        self._max_bytes = max_bytes

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        with suppress(OSError):  # no disk, or no directory any more: then it goes on as it is
            if self._path.stat().st_size > self._max_bytes:
                shutil.copyfile(self._path, self._path.with_suffix(".log.1"))
                os.truncate(self._path, 0)


def set_up(path: Path, level: int = logging.WARNING) -> None:
    """Send what the hub logs to its file."""
    logging.basicConfig(level=level, format=FORMAT, handlers=[BoundedHandler(path)], force=True)


class Sparingly:
    """Logs a kind of event at most once in ``every_s`` seconds, with the number of those left out."""

    def __init__(
        self, logger: logging.Logger, every_s: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger = logger
        self._every_s = every_s
        self._clock = clock
        self._next = -1.0
        self._left_out = 0

    def warning(self, text: str) -> None:
        now = self._clock()
        if now < self._next:
            self._left_out += 1
            return
        more = f" (and {self._left_out} more)" if self._left_out else ""
        self._logger.warning("%s%s", text, more)
        self._next = now + self._every_s
        self._left_out = 0
