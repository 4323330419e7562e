"""A file descriptor that comes with the first answer on a Unix socket."""

from __future__ import annotations

import os
import socket
from typing import Final

from fibernb.errors import NotConnected
from fibernb.transport import socket_file
from fibernb.transport.framing import MARK, PREFIX
from fibernb.transport.unix_link import UnixLink

READ_BYTES: Final = 64 * 1024


def dial_for_descriptor(
    path: str, hello: bytes, max_bytes: int, timeout_s: float
) -> tuple[UnixLink, bytes, int | None]:
    """Dial, say hello, and wait for the answer.

    Parameters
    ----------
    timeout_s : how long the answer may take.

    Returns the link, the answer, and the descriptor that came with it, which is the caller's. Raises `NotConnected`.
    """
    socket_file.check_length(path)
    try:
        connection = socket_file.connect(path)
    except OSError as error:
        raise NotConnected(f"cannot connect to {path}: {error.strerror}") from error
    fds: list[int] = []
    try:
        connection.settimeout(timeout_s)
        connection.sendall(PREFIX.pack(MARK | len(hello)) + hello)
        answer = _read_one(connection, fds, path, max_bytes)
        connection.settimeout(None)
    except BaseException as error:
        connection.close()
        for fd in fds:
            os.close(fd)
        if isinstance(error, OSError) and not isinstance(error, NotConnected):
            raise NotConnected(f"the link to {path} is gone: {error}") from error
        raise
    return UnixLink(connection, f"unix:{path}", max_bytes), answer, fds[0] if fds else None


def send_descriptor(connection: socket.socket, message: bytes, fd: int) -> None:
    """Send a message together with a descriptor, as the very first one on a connection."""
    socket.send_fds(connection, [PREFIX.pack(MARK | len(message)) + message], [fd])


def _read_one(connection: socket.socket, fds: list[int], path: str, max_bytes: int) -> bytes:
    data, length = b"", PREFIX.size
    while len(data) < length:
        received, more, _, _ = socket.recv_fds(connection, READ_BYTES, 1)
        fds += more
        if not received:
            raise NotConnected(f"the link to {path} is gone: the other side has ended or hung up")
        data += received
        if len(data) >= PREFIX.size:
            length = PREFIX.size + _length(data, path, max_bytes)
    return data[PREFIX.size :]


def _length(data: bytes, path: str, max_bytes: int) -> int:
    length: int = PREFIX.unpack_from(data)[0] ^ MARK
    if length > max_bytes:
        raise NotConnected(f"what listens at {path} does not speak this protocol")
    return length
