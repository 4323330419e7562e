"""The file that a Unix socket is known by: its length, its stale predecessor, its removal."""

from __future__ import annotations

import errno
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from fibernb.errors import ConfigError

PATH_BYTES: Final = 107 if sys.platform == "linux" else 103  # what sockaddr_un holds, but for the closing zero


def check_length(path: str) -> None:
    """`ConfigError` for a path that the system would not take."""
    size = len(os.fsencode(path))
    if size > PATH_BYTES:
        raise ConfigError(
            f"the socket path {path} has {size} bytes, and the system allows {PATH_BYTES}: "
            "choose a shorter runtime_dir, such as FIBERNB_RUNTIME_DIR=/tmp/fibernb"
        )


def connect(path: str) -> socket.socket:
    """A blocking connection. Raises what the system says; `BlockingIOError` when too many others are waiting."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect(path)
        connection.setblocking(True)
    except BaseException:
        connection.close()
        raise
    return connection


def remove_stale(path: str) -> None:
    """Remove a socket file whose listener is dead; `OSError` (EADDRINUSE) when it lives."""
    if not Path(path).is_socket():
        return
    try:
        connect(path).close()
    except (ConnectionRefusedError, FileNotFoundError):
        Path(path).unlink(missing_ok=True)
    except BlockingIOError:
        raise OSError(errno.EADDRINUSE, "a living listener is there") from None
    else:
        raise OSError(errno.EADDRINUSE, "a living listener is there")


class SocketFile:
    """The file of a bound socket, made accessible to its owner only."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.chmod(0o600)
        self._stat = self._path.lstat()

    def remove(self) -> None:
        """Unless it has gone, or another listener has put its own there."""
        with suppress(FileNotFoundError):
            if os.path.samestat(self._path.lstat(), self._stat):
                self._path.unlink()
