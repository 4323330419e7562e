"""File descriptors that come along with messages on a Unix socket."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from fibernb.errors import NotConnected
from fibernb.transport import socket_file
from fibernb.transport.framing import MARK, PREFIX
from fibernb.transport.unix_link import UnixLink

READ_BYTES: Final = 64 * 1024
MAX_DESCRIPTORS: Final = 16  # that one system call receives; the system hands out one message's at a time
ANCILLARY_BYTES: Final = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
CLOSE_ON_EXEC: Final = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))


class DescriptorSocket(socket.socket):
    """A Unix socket that keeps the descriptors which come in, numbered from 1 on.

    A descriptor is here at the latest when the message is that it came with. As in `fibernb.transport.framing`, what
    has been received is stored before a signal handler can run.
    """

    def __init__(self, connected: socket.socket) -> None:
        timeout_s = connected.gettimeout()
        super().__init__(fileno=connected.detach())
        self.settimeout(timeout_s)
        self._arrived: deque[tuple[int, int]] = deque()  # number and descriptor
        self._count = 0
        self._received: list[Any] = []  # received but not yet taken apart: at most one

    def recv_into(self, buffer: Any, _nbytes: int = 0, flags: int = 0) -> int:
        if not self._received:
            receive: Callable[..., Any] = self.recvmsg_into
            self._received.extend(map(receive, ((buffer,),), (ANCILLARY_BYTES,), (flags | CLOSE_ON_EXEC,)))
        size: int
        size, ancillary, *_ = self._received[0]
        fds = descriptors_in(ancillary)
        if fds:
            arrived, count = deque((*self._arrived, *enumerate(fds, self._count + 1))), self._count + len(fds)
            self._arrived, self._count, self._received = arrived, count, []
        else:
            self._received = []
        return size

    def take_descriptor(self, number: int = 0) -> int | None:
        """The descriptor of that number, or the oldest; it is the caller's now. Older ones are closed."""
        while self._arrived:
            at, fd = self._arrived.popleft()
            if number in (0, at):
                return fd
            os.close(fd)
        return None

    def close(self) -> None:
        super().close()
        self.take_descriptor(-1)


def descriptors_in(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that a system call has received."""
    kind = (socket.SOL_SOCKET, socket.SCM_RIGHTS)
    data = b"".join(rest for level, type_, rest in ancillary if (level, type_) == kind)
    return list(memoryview(data[: len(data) // 4 * 4]).cast("i"))


class DescriptorLink(UnixLink):
    """A link whose messages may have descriptors with them, either way."""

    def __init__(self, connection: DescriptorSocket, address: str, max_bytes: int) -> None:
        super().__init__(connection, address, max_bytes)
        self._arriving = connection

    def take_descriptor(self, number: int) -> int | None:
        """The descriptor of that number, counted from 1, which is the caller's now. Older ones are closed."""
        return self._arriving.take_descriptor(number)

    def send_with(self, message: bytes, fd: int) -> None:
        """As `send`, for a short message and a descriptor, of which the other side gets a duplicate."""
        try:
            with self._sending:
                self._require_open()
                while not self._outbox.write(self._socket):
                    continue
                send_descriptor(self._socket, message, fd)
        except NotConnected:
            raise
        except OSError as error:
            raise NotConnected(f"the link to {self._address} is gone: {error.strerror}") from error
        finally:
            if self._closed:
                self._close_descriptor()


def dial_for_descriptor(
    path: str, hello: bytes, max_bytes: int, timeout_s: float
) -> tuple[DescriptorLink, bytes, int | None]:
    """Dial, say hello, and wait for the answer.

    Parameters
    ----------
    timeout_s : how long the answer may take.

    Returns the link, the answer, and the descriptor that came with it, which is the caller's. Raises `NotConnected`.
    """
    socket_file.check_length(path)
    try:
        connection = DescriptorSocket(socket_file.connect(path))
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
    return DescriptorLink(connection, f"unix:{path}", max_bytes), answer, fds[0] if fds else None


def send_descriptor(connection: socket.socket, message: bytes, fd: int) -> None:
    """Send a short message together with a descriptor; nothing may be waiting to be sent before it."""
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
