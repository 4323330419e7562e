"""The dialled end of ZeroMQ."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import Final

import zmq

from fibernb.errors import NotConnected
from fibernb.transport.protocol import Arrival, Peer
from fibernb.transport.socket_file import SocketFile
from fibernb.transport.waker import Waker
from fibernb.transport.zeromq_socket import Context, Word, monitored_events

# After a connection has broken, peers are probed at these times. The monitor may speak before the ROUTER knows.
PROBES_S: Final = (0.0, 0.02, 0.2, 1.0)
MESSAGES_AT_ONCE: Final = 10_000  # of one poll


class _Connection:
    __slots__ = ("dropped", "identity", "max_bytes", "peer")

    def __init__(self, peer: Peer, identity: bytes, max_bytes: int) -> None:
        self.peer = peer
        self.identity = identity
        self.max_bytes = max_bytes
        self.dropped = False  # what it still says is ignored, until its connection ends


class ZeroMQListener:
    """Implements `fibernb.transport.protocol.Listener`.

    A message over its peer's limit that comes right behind others is judged by the next `poll`: those others may be
    what raises the limit. ZeroMQ itself refuses what is over the limit of all messages, and hangs up.

    A ROUTER cannot hang up on one peer. A dropped peer is told goodbye, and what it says afterwards is not heard.
    """

    def __init__(self, context: Context, router: zmq.Socket[bytes], file: SocketFile | None, hello_bytes: int) -> None:
        self._context = context
        self._router = router
        self._file = file
        self._hello_bytes = hello_bytes
        self._address = f"zmq+{router.getsockopt_string(zmq.LAST_ENDPOINT).replace('://', ':', 1)}"
        self._monitor = router.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._waker = Waker()
        self._poller = zmq.Poller()
        self._by_peer: dict[Peer, _Connection] = {}  # those that live
        self._by_identity: dict[bytes, _Connection] = {}  # those whose connection lives
        self._held: deque[list[bytes]] = deque()  # received but not yet judged
        self._unreachable: list[_Connection] = []  # gone; what they had sent may still be there
        self._gone: list[Peer] = []  # still to be told of
        self._probes: list[float] = []  # when, soonest last
        self._last_peer = 0
        self._refused = 0
        self._closed = False
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        for source in (router, self._monitor, self._waker.fileno()):
            self._poller.register(source, zmq.POLLIN)

    @property
    def address(self) -> str:
        return self._address

    @property
    def refused(self) -> int:
        return self._refused

    def poll(self, timeout_s: float | None) -> list[Arrival]:
        if self._closed:
            raise NotConnected(f"the listener at {self._address} has been closed")
        arrivals: list[Arrival] = []
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._receive(arrivals)
        while not arrivals:
            left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            woken = self._wait(left_s)
            self._probe_when_due()
            self._receive(arrivals)
            if woken or left_s == 0.0:
                break
        return arrivals

    def send(self, peer: Peer, message: bytes) -> None:
        connection = self._by_peer.get(peer)
        if connection is not None:
            self._route(connection, [message])

    def limit(self, peer: Peer, max_bytes: int) -> None:
        connection = self._by_peer.get(peer)
        if connection is not None:
            connection.max_bytes = max_bytes

    def drop(self, peer: Peer) -> None:
        connection = self._by_peer.pop(peer, None)
        if connection is not None:
            connection.dropped = True
            self._route(connection, Word.GOODBYE)

    def wake(self) -> None:
        self._waker.wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for peer in list(self._by_peer):
            self.drop(peer)
        if self._file is not None:
            self._file.remove()
        self._waker.close()
        self._router.disable_monitor()
        self._monitor.close(linger=0)
        self._router.close()
        self._context.term()

    # ---- receiving ---------------------------------------------------------------------------------------

    def _wait(self, timeout_s: float | None) -> bool:
        """Until a socket has something, a probe is due or the time is over; whether `wake` was called."""
        waits = [] if timeout_s is None else [timeout_s]
        if self._probes:
            waits.append(max(self._probes[-1] - time.monotonic(), 0.0))
        ready = dict(self._poller.poll(int(min(waits) * 1000 + 0.999) if waits else None))
        if self._monitor in ready and monitored_events(self._monitor):
            now = time.monotonic()
            self._probes = [now + after_s for after_s in reversed(PROBES_S)]
        woken = self._waker.fileno() in ready
        if woken:
            self._waker.clear()
        return woken

    def _receive(self, arrivals: list[Arrival]) -> None:
        heard: set[Peer] = set()
        for _ in range(MESSAGES_AT_ONCE):
            frames = self._held.popleft() if self._held else self._next()
            if frames is None:
                self._lose_unreachable()
                break
            if not self._take(frames, heard, arrivals):
                self._held.appendleft(frames)
                break
        arrivals.extend(Arrival(peer, None) for peer in self._gone)
        self._gone.clear()

    def _next(self) -> list[bytes] | None:
        with suppress(zmq.Again):
            return self._router.recv_multipart(zmq.NOBLOCK)
        return None

    def _take(self, frames: list[bytes], heard: set[Peer], arrivals: list[Arrival]) -> bool:
        """Hand over what a peer sent, or act on it; False when it has to wait for the next `poll`."""
        identity, *parts = frames
        connection = self._by_identity.get(identity) or self._meet(identity)
        if parts == Word.GOODBYE:
            self._lose(connection)
        elif connection.dropped or parts == Word.HELLO:
            pass  # there is nothing to hand over
        elif len(parts) == 1 and len(parts[0]) <= connection.max_bytes:
            arrivals.append(Arrival(connection.peer, parts[0]))
            heard.add(connection.peer)
        elif connection.peer in heard:
            return False
        else:
            self._refused += 1
            self.drop(connection.peer)
            self._gone.append(connection.peer)
        return True

    # ---- peers -------------------------------------------------------------------------------------------

    def _meet(self, identity: bytes) -> _Connection:
        self._last_peer += 1
        connection = _Connection(self._last_peer, identity, self._hello_bytes)
        self._by_identity[identity] = connection
        self._by_peer[connection.peer] = connection
        return connection

    def _route(self, connection: _Connection, frames: list[bytes]) -> None:
        try:
            self._router.send_multipart([connection.identity, *frames], zmq.NOBLOCK)
        except zmq.ZMQError:
            self._unreachable.append(connection)

    def _lose_unreachable(self) -> None:
        for connection in self._unreachable:
            self._lose(connection)
        self._unreachable.clear()

    def _lose(self, connection: _Connection) -> None:
        self._by_identity.pop(connection.identity, None)
        if self._by_peer.pop(connection.peer, None) is not None:
            self._gone.append(connection.peer)

    def _probe_when_due(self) -> None:
        now = time.monotonic()
        if not self._probes or self._probes[-1] > now:
            return
        self._probes.pop()
        for connection in self._by_identity.values():
            self._route(connection, Word.PROBE)
