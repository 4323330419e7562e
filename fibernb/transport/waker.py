"""A descriptor that becomes readable when another thread, or a signal handler, says so."""

from __future__ import annotations

import os
import threading


class Waker:
    """An eventfd where the system has one, else a pipe.

    The lock may be entered again by its own thread, so that a signal handler can wake whatever it interrupts. It keeps
    `wake` away from a descriptor that has been closed, and perhaps opened anew as something else.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._closed = False
        if hasattr(os, "eventfd"):
            self._read_fd = self._write_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._read_fd, self._write_fd = os.pipe()
            os.set_blocking(self._read_fd, False)
            os.set_blocking(self._write_fd, False)

    def fileno(self) -> int:
        """Readable from `wake` until `clear`."""
        return self._read_fd

    def wake(self) -> None:
        """From any thread or signal handler; does nothing when already woken or closed."""
        with self._lock:
            if self._closed:
                return
            try:
                os.write(self._write_fd, b"\1\0\0\0\0\0\0\0")
            except BlockingIOError:
                return  # full: it is awake

    def clear(self) -> None:
        """Take in everything that `wake` has said so far."""
        try:
            while len(os.read(self._read_fd, 4096)) == 4096:
                continue
        except BlockingIOError:
            return

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for fd in {self._read_fd, self._write_fd}:
                os.close(fd)
