"""Pipes, and the library's listeners and clients.

A `Connection` is the library's, and may be sent wherever a value may go: through another connection or a queue, as an
argument of a process, a task or an actor.
"""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Callable
from multiprocessing import connection
from multiprocessing.connection import Client, Listener, answer_challenge, deliver_challenge, wait
from typing import Any, Final

from fibernb.multiprocessing.reduction import Reduced, dumps, loads, reduce_connection

__all__ = ["Client", "Connection", "Listener", "Pipe", "answer_challenge", "deliver_challenge", "wait"]

LARGE_BYTES: Final = 64 * 1024  # what is larger comes in pieces, and is read straight to where it belongs


class Connection(connection.Connection):
    """One end of a pipe."""

    _handle: int
    _check_closed: Callable[[], None]
    _check_readable: Callable[[], None]
    _check_writable: Callable[[], None]
    _send_bytes: Callable[[bytes], None]
    _recv_bytes: Callable[..., Any]

    def send(self, obj: Any) -> None:
        self._check_closed()
        self._check_writable()
        self._send_bytes(dumps(obj))

    def recv(self) -> Any:
        self._check_closed()
        self._check_readable()
        return loads(self._recv_bytes().getbuffer())

    def __reduce__(self) -> Reduced:
        return reduce_connection(self)

    def _recv(self, size: int, read: Any = os.read) -> io.BytesIO:
        if size >= LARGE_BYTES:
            return self._recv_large(size)
        received: io.BytesIO = super()._recv(size, read)  # type: ignore[misc]  # unknown to typeshed
        return received

    def _recv_large(self, size: int) -> io.BytesIO:
        buffer = io.BytesIO()
        buffer.seek(size - 1)
        buffer.write(b"\0")
        with buffer.getbuffer() as view:
            filled = 0
            while filled < size:
                count = os.readv(self._handle, [view[filled:]])
                if not count:
                    raise OSError("got end of file during message") if filled else EOFError
                filled += count
        return buffer


def Pipe(duplex: bool = True) -> tuple[Connection, Connection]:  # noqa: N802  the library's name
    """Two connected ends: what is sent into one is received from the other.

    Parameters
    ----------
    duplex : both ways; else the first end only receives, and the second only sends.
    """
    if duplex:
        first, second = socket.socketpair()
        for each in (first, second):
            each.setblocking(True)  # whatever the program has set by socket.setdefaulttimeout
        return Connection(first.detach()), Connection(second.detach())
    reading, writing = os.pipe()
    return Connection(reading, writable=False), Connection(writing, readable=False)


def __getattr__(name: str) -> Any:
    """What else the library's module has."""
    return getattr(connection, name)
