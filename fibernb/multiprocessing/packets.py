"""The pipe inside of a queue: any number of processes send and receive, and each message arrives whole, at one of them.

A socket that keeps messages apart needs no locks between processes. So whichever process is killed, and whenever, what
is on its way stays as it was for the others. A message that is too large for the socket stands in memory of its own,
and only its descriptor goes through the socket.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from fibernb.multiprocessing.connection import Connection
from fibernb.multiprocessing.reduction import dumps, loads
from fibernb.transport.descriptors import ANCILLARY_BYTES, CLOSE_ON_EXEC, descriptors_in
from fibernb.transport.framing import NO_SIGNAL, NO_WAIT

PACKET_BYTES: Final = 128 * 1024  # of the largest message that goes through the socket itself
PAUSE_S: Final = 0.001  # while there are too many descriptors on their way

_CROWDED: Final = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ETOOMANYREFS})


class PacketConnection(Connection):
    """An end of a pipe that may be used by many processes at once."""

    def __init__(self, handle: int, readable: bool = True, writable: bool = True) -> None:
        super().__init__(handle, readable, writable)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, handle)
        self._socket.setblocking(True)  # whatever the program has set by socket.setdefaulttimeout

    def send(self, obj: Any) -> None:
        self.send_packet(dumps(obj))

    def recv(self) -> Any:
        return loads(self.recv_packet())

    def send_packet(self, data: bytes | memoryview, wait: bool = True) -> bool:
        """Send one message; False if it would have to wait for room, and is not to."""
        self._check_closed()
        self._check_writable()
        if 0 < len(data) <= PACKET_BYTES:
            return self._send_once(lambda flags: self._socket.send(data, flags), wait)
        fd = _in_memory(data)
        try:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))]
            return self._send_once(lambda flags: self._socket.sendmsg([b"\0"], rights, flags), wait)
        finally:
            os.close(fd)

    def recv_packet(self, wait: bool = True) -> bytes | memoryview:
        """The next message; `BlockingIOError` if there is none, and it is not to be waited for.

        Raises `EOFError` when all senders have closed, and everything has been received.
        """
        self._check_closed()
        self._check_readable()
        flags = CLOSE_ON_EXEC if wait else CLOSE_ON_EXEC | NO_WAIT
        data, ancillary, *_ = self._socket.recvmsg(PACKET_BYTES, ANCILLARY_BYTES, flags)
        if ancillary:
            return _from_memory(*descriptors_in(ancillary))
        if not data:
            raise EOFError
        return data

    def recv_within(self, timeout_s: float) -> bytes | memoryview | None:
        """The next message, or None when there is none in time. A message rouses one of those who wait, not all."""
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            with select.epoll() as poller:
                poller.register(self.fileno(), select.EPOLLIN | select.EPOLLEXCLUSIVE)
                poller.poll(left_s)
            try:
                return self.recv_packet(wait=False)  # even if the time is over: we may be the one who was roused
            except BlockingIOError:
                continue  # another one was faster
        return None

    def _send_once(self, send: Callable[[int], Any], wait: bool) -> bool:
        flags = NO_SIGNAL if wait else NO_SIGNAL | NO_WAIT
        while True:
            try:
                send(flags)
            except OSError as error:
                if error.errno not in _CROWDED:
                    raise
                if not wait:
                    return False
                time.sleep(PAUSE_S)
            else:
                return True

    def _send_bytes(self, buf: bytes | memoryview) -> None:
        self.send_packet(buf)

    def _recv_bytes(self, maxsize: int | None = None) -> io.BytesIO | None:
        data = self.recv_packet()
        if maxsize is not None and len(data) > maxsize:
            return None
        received = io.BytesIO()
        received.write(data)
        return received

    def _close(self) -> None:
        self._socket.close()


def packet_pipe() -> tuple[PacketConnection, PacketConnection]:
    """The end that receives, and the one that sends."""
    reading, writing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return PacketConnection(reading.detach(), writable=False), PacketConnection(writing.detach(), readable=False)


def _in_memory(data: bytes | memoryview) -> int:
    """The descriptor of new memory that holds a message."""
    fd = os.memfd_create("fibernb-queue", os.MFD_CLOEXEC)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
    except BaseException:
        os.close(fd)
        raise
    return fd


def _from_memory(fd: int) -> bytes | memoryview:
    """The message behind a descriptor, writable, in memory that goes with the last reference to it."""
    try:
        size = os.fstat(fd).st_size
        return memoryview(mmap.mmap(fd, size)) if size else b""
    finally:
        os.close(fd)
