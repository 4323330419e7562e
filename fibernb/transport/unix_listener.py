"""The dialled end of a Unix socket: one thread, thousands of peers, nothing that waits for one of them."""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from fibernb.errors import NotConnected
from fibernb.transport.descriptors import DescriptorSocket, send_descriptor
from fibernb.transport.framing import FrameError, Inbox, Outbox
from fibernb.transport.protocol import Arrival, Peer
from fibernb.transport.socket_file import SocketFile
from fibernb.transport.waker import Waker

READ: Final = select.POLLIN  # the numbers of poll and epoll are the same
WRITE: Final = select.POLLOUT

SCRATCH_BYTES: Final = 256 * 1024
MAX_READS: Final = 8  # of one peer, one after the other: more than a socket holds
CLOSE_GRACE_S: Final = 1.0  # what is queued has this long to leave when the listener closes
_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})


class Poller(Protocol):
    """What `select.epoll` is, and other systems' `select.poll` is made to be."""

    def register(self, fd: int, eventmask: int, /) -> None: ...
    def modify(self, fd: int, eventmask: int, /) -> None: ...
    def unregister(self, fd: int, /) -> None: ...
    def poll(self, timeout_s: float | None, /) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class PlainPoller:
    """`select.poll` with the interface of `select.epoll`."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register
        self.modify = self._poll.modify
        self.unregister = self._poll.unregister

    def poll(self, timeout_s: float | None, /) -> list[tuple[int, int]]:
        return self._poll.poll(None if timeout_s is None else timeout_s * 1000)

    def close(self) -> None:
        """There is no descriptor to close."""


def make_poller() -> Poller:
    return select.epoll() if hasattr(select, "epoll") else PlainPoller()


class _Connection:
    __slots__ = ("dropped", "fd", "inbox", "interest", "outbox", "peer", "socket")

    def __init__(self, peer: Peer, connection: socket.socket, hello_bytes: int, scratch: memoryview) -> None:
        self.peer = peer
        self.socket = connection
        self.fd = connection.fileno()
        self.inbox = Inbox(hello_bytes, scratch)
        self.outbox = Outbox()
        self.interest = READ
        self.dropped = False  # nothing is read any more; closed when the outbox is empty


class UnixListener:
    """Implements `fibernb.transport.protocol.Listener`.

    A message over its peer's limit that comes right behind others is judged by the next `poll`: those others may be
    what raises the limit.

    Parameters
    ----------
    listening : a listening, non-blocking socket.
    path : of its file.
    file : that file, if it goes with the listener.
    hello_bytes : the largest message that a new peer may send, until `limit`.
    wrap : what is made of the sockets of peers: `DescriptorSocket` where they may send descriptors.
    """

    def __init__(
        self,
        listening: socket.socket,
        path: str,
        file: SocketFile | None,
        hello_bytes: int,
        wrap: Callable[[socket.socket], socket.socket] | None = None,
    ) -> None:
        self._listening = listening
        self._path = path
        self._file = file
        self._hello_bytes = hello_bytes
        self._wrap = wrap
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._poller = make_poller()
        self._waker = Waker()
        self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._by_peer: dict[Peer, _Connection] = {}
        self._by_fd: dict[int, _Connection] = {}
        self._held: list[_Connection] = []
        self._last_peer = 0
        self._refused = 0
        self._closed = False
        self._poller.register(listening.fileno(), READ)
        self._poller.register(self._waker.fileno(), READ)

    @property
    def address(self) -> str:
        return f"unix:{self._path}"

    @property
    def refused(self) -> int:
        return self._refused

    def fileno(self) -> int:
        """A descriptor that can be read when `poll` has something to do. Raises `OSError` where there is no epoll."""
        if not isinstance(self._poller, select.epoll):
            raise OSError(errno.ENOSYS, "this system has no descriptor for many sockets")
        return self._poller.fileno()

    def descriptors(self) -> list[int]:
        """All that are open, for who has to let go of them in a forked process."""
        return [self.fileno(), self._listening.fileno(), *self._by_fd]

    def poll(self, timeout_s: float | None) -> list[Arrival]:
        if self._closed:
            raise NotConnected(f"the listener at {self.address} has been closed")
        arrivals: list[Arrival] = []
        if self._held:
            self._judge_held(arrivals)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        left_s = timeout_s
        while not arrivals and not self._serve(left_s, arrivals) and left_s != 0.0:
            left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        return arrivals

    def send(self, peer: Peer, message: bytes) -> None:
        connection = self._by_peer.get(peer)
        if connection is None or connection.dropped:
            return
        connection.outbox.push(message)
        if connection.interest == READ:  # else it waits for room, behind others
            self._write(connection)

    def send_descriptor(self, peer: Peer, message: bytes, fd: int) -> bool:
        """Send a short message with a descriptor to a peer; False when it does not read what it was sent before."""
        connection = self._by_peer.get(peer)
        if connection is None or connection.dropped:
            return True
        try:
            while not connection.outbox.write(connection.socket):
                continue
            send_descriptor(connection.socket, message, fd)
        except BlockingIOError:
            return False
        except OSError:
            return True  # the peer has gone; reading will tell
        return True

    def take_descriptor(self, peer: Peer) -> int | None:
        """The oldest descriptor that has come from a peer, which is the caller's now."""
        connection = self._by_peer.get(peer)
        if connection is None or not isinstance(connection.socket, DescriptorSocket):
            return None
        return connection.socket.take_descriptor()

    def limit(self, peer: Peer, max_bytes: int) -> None:
        connection = self._by_peer.get(peer)
        if connection is not None:
            connection.inbox.max_bytes = max_bytes

    def drop(self, peer: Peer) -> None:
        connection = self._by_peer.get(peer)
        if connection is None:
            return
        connection.dropped = True
        if connection.outbox:
            self._watch(connection, WRITE)
        else:
            self._forget(connection)

    def wake(self) -> None:
        self._waker.wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._listening.close()
        if self._file is not None:
            self._file.remove()
        self._flush(time.monotonic() + CLOSE_GRACE_S)
        for connection in self._by_peer.values():
            connection.socket.close()
        self._by_peer.clear()
        self._by_fd.clear()
        self._held.clear()
        self._poller.close()
        self._waker.close()
        os.close(self._spare_fd)

    # ---- what is ready -----------------------------------------------------------------------------------

    def _serve(self, timeout_s: float | None, arrivals: list[Arrival]) -> bool:
        """Wait for descriptors and do what they are ready for; whether something has arrived, or `wake` was called."""
        woken = False
        for fd, mask in self._poller.poll(timeout_s):
            connection = self._by_fd.get(fd)
            if connection is not None:
                self._serve_peer(connection, mask, arrivals)
            elif fd == self._waker.fileno():
                self._waker.clear()
                woken = True
            else:
                self._accept()
        return woken or bool(arrivals)

    def _serve_peer(self, connection: _Connection, mask: int, arrivals: list[Arrival]) -> None:
        if connection.dropped:
            self._write(connection)
            return
        if mask & WRITE:
            self._write(connection)
        if mask != WRITE:
            self._read(connection, arrivals)

    def _accept(self) -> None:
        """Everybody who knocks."""
        while True:
            try:
                accepted, _ = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    self._turn_away()
                return  # else that peer has given up already
            accepted.setblocking(False)
            if self._wrap is not None:
                accepted = self._wrap(accepted)
            self._last_peer += 1
            connection = _Connection(self._last_peer, accepted, self._hello_bytes, self._scratch)
            self._by_peer[connection.peer] = connection
            self._by_fd[connection.fd] = connection
            self._poller.register(connection.fd, READ)

    def _turn_away(self) -> None:
        """Without descriptors, hang up on one peer by means of the spare one, rather than let it knock for ever."""
        os.close(self._spare_fd)
        with suppress(OSError):  # it has given up, or another thread was faster to take the descriptor
            self._listening.accept()[0].close()
            self._refused += 1
        self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    # ---- one peer ----------------------------------------------------------------------------------------

    def _judge_held(self, arrivals: list[Arrival]) -> None:
        held, self._held = self._held, []
        for connection in held:
            if self._by_peer.get(connection.peer) is connection and not connection.dropped:
                self._read(connection, arrivals)

    def _read(self, connection: _Connection, arrivals: list[Arrival]) -> None:
        """Take in what has come, and not a part of it: of two peers, who was done with sending first is heard first."""
        for _ in range(MAX_READS):
            self._read_once(connection, arrivals)
            inbox = connection.inbox
            if not inbox.filled or inbox.ended or inbox.held:
                return
            if inbox.max_bytes == self._hello_bytes:
                return  # the limit is raised when what it has sent is heard

    def _read_once(self, connection: _Connection, arrivals: list[Arrival]) -> None:
        peer, inbox = connection.peer, connection.inbox
        try:
            inbox.read(connection.socket)
        except BlockingIOError:
            inbox.filled = False
            return
        except FrameError:
            self._refused += 1
            inbox.ended = True
        except OSError:
            inbox.ended = True  # such as a reset: the peer went without reading what we sent
        arrivals += [Arrival(peer, message) for message in inbox.take()]
        if inbox.ended:
            self._forget(connection)
            arrivals.append(Arrival(peer, None))
        elif inbox.held:
            self._held.append(connection)

    def _write(self, connection: _Connection) -> None:
        try:
            while not connection.outbox.write(connection.socket):
                continue
        except BlockingIOError:
            self._watch(connection, WRITE if connection.dropped else READ | WRITE)
            return
        except OSError:
            connection.outbox = Outbox()  # the peer has gone; reading will tell
        if connection.dropped:
            self._forget(connection)
        elif connection.interest != READ:
            self._watch(connection, READ)

    def _watch(self, connection: _Connection, interest: int) -> None:
        if connection.interest != interest:
            connection.interest = interest
            self._poller.modify(connection.fd, interest)

    def _forget(self, connection: _Connection) -> None:
        del self._by_peer[connection.peer]
        del self._by_fd[connection.fd]
        self._poller.unregister(connection.fd)
        connection.socket.close()

    # ---- the end -----------------------------------------------------------------------------------------

    def _flush(self, deadline: float) -> None:
        waiting = {connection.fd: connection for connection in self._by_peer.values() if connection.outbox}
        poller = select.poll()
        for fd in waiting:
            poller.register(fd, WRITE)
        while waiting and (left_s := deadline - time.monotonic()) > 0:
            for fd, _ in poller.poll(left_s * 1000):
                if self._flushed(waiting[fd]):
                    poller.unregister(fd)
                    del waiting[fd]

    @staticmethod
    def _flushed(connection: _Connection) -> bool:
        """Nothing more can be sent: it is all out, or the peer is gone."""
        try:
            return connection.outbox.write(connection.socket)
        except BlockingIOError:
            return False
        except OSError:
            return True
