"""Where an engine's output goes: to its reporter and, for the time when the engine is dead, to its log files.

``rank-N.log`` holds what Python code printed, line by line as it was printed. ``rank-N.native.log`` is behind the
descriptors 1 and 2: what libraries and child processes write. The engine reads the latter back, so that it reaches the
notebook as well. Those of an engine beside the seats, which has a rank of -N, are called ``extra-N``. Each is rotated
when it has grown to `MAX_LOG_BYTES`: the one before is kept beside it, with ``.1`` behind its name, so that a chatty
loop cannot fill the disk.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

from fibernb.engine.reporter import Reporter
from fibernb.model import Rank

NATIVE_CHUNK_BYTES: Final = 262_144
MAX_LOG_BYTES: Final = 2**25
APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


def log_path(directory: Path, rank: Rank) -> Path:
    """The log of what a rank's Python code prints."""
    return directory / "logs" / f"{_seat_name(rank)}.log"


def native_log_path(directory: Path, rank: Rank) -> Path:
    """The log behind a rank's descriptors 1 and 2."""
    return directory / "logs" / f"{_seat_name(rank)}.native.log"


def _seat_name(rank: Rank) -> str:
    """Of a seat, or of one beside the seats."""
    return f"rank-{rank}" if rank >= 0 else f"extra-{-rank}"


def rotated(path: str) -> str:
    """Where the part of a log stands that was written before the last rotation."""
    return f"{path}.1"


class LogFile:
    """A file that is appended to line by line. That it cannot be written (a full disk) is no reason to fail."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._partial: list[str] = []
        self._path = ""
        self._fd = -1
        self._size_bytes = 0

    def open(self, path: str) -> None:
        """Where to write from now on."""
        self._path = path
        try:
            self._fd = os.open(path, APPEND, 0o600)
            self._size_bytes = os.fstat(self._fd).st_size
        except OSError:
            self._fd = -1

    def write(self, text: str) -> None:
        """Keep the text; write it when it ends a line."""
        with self._lock:
            self._partial.append(text)
            if text.endswith("\n"):
                self.flush()

    def flush(self) -> None:
        """Write what waits for the end of its line."""
        if not self._partial:
            return
        with self._lock:
            text = "".join(self._partial)
            self._partial.clear()
            try:
                self._size_bytes += os.write(self._fd, text.encode("utf-8", "replace"))
                if self._size_bytes >= MAX_LOG_BYTES:
                    self._rotate()
            except OSError:
                return  # the notebook gets it all the same

    def _rotate(self) -> None:
        os.replace(self._path, rotated(self._path))
        os.close(self._fd)
        self.open(self._path)


class TaskStream(io.TextIOBase):
    """Stands for sys.stdout or sys.stderr of an engine."""

    def __init__(self, name: str, fd: int, reporter: Reporter, log: LogFile) -> None:
        self.name = name
        self._fd = fd
        self._reporter = reporter
        self._log = log
        self.buffer: BinaryIO = os.fdopen(fd, "wb", buffering=0, closefd=False)

    encoding = "utf-8"
    errors = "replace"

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not text:
            return 0
        if self._reporter.is_ours:
            self._reporter.write(self.name, text)
            self._log.write(text)
        else:  # in a process that a task has forked: the engine reads it back
            os.write(self._fd, text.encode("utf-8", "replace"))
        return len(text)

    def flush(self) -> None:
        """Nothing waits here for long."""

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        """Stays open: the next task prints too."""

    def reconfigure(self, **_options: object) -> None:
        """Stays as it is, which is all that those ask for who want UTF-8 and whole lines."""


class NativeOutput:
    """Reads what has been written to descriptors 1 and 2 since the last time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._path = ""
        self._fd = -1
        self._offset = 0

    def open(self, path: str) -> None:
        """The log that is behind the descriptors; what stands in it already is not read."""
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            self._offset = os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self._fd = -1

    def read(self) -> str:
        """New text, at most a chunk of it."""
        if self._fd < 0 or os.lseek(self._fd, 0, os.SEEK_END) == self._offset:
            return ""
        with self._lock:
            data = os.pread(self._fd, NATIVE_CHUNK_BYTES, self._offset)
            self._offset += len(data)
            if self._offset >= MAX_LOG_BYTES and len(data) < NATIVE_CHUNK_BYTES:
                self._rotate()
            return self._decode(data)

    def _rotate(self) -> None:
        """Copy, then truncate: other processes hold the descriptor. What they write in between is not kept."""
        with contextlib.suppress(OSError):
            shutil.copyfile(self._path, rotated(self._path))
            os.ftruncate(self._fd, 0)
            self._offset = 0


def restore_streams() -> None:
    """Give back what somebody has taken out of `sys`; what stands in its place is his own affair."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name, None) is None:
            setattr(sys, name, getattr(sys, f"__{name}__"))


def adopt_threads(reporter: Reporter) -> None:
    """From now on, what a thread prints belongs to the task that started it."""
    start: Callable[[threading.Thread], None] = threading.Thread.start

    def start_adopted(thread: threading.Thread) -> None:
        reporter.adopt_thread(thread)
        start(thread)

    thread_class: Any = threading.Thread
    thread_class.start = start_adopted
