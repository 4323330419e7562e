"""Links within one process, for tests of what stands above: the same promises, no sockets.

One lock a listener guards it and all its links.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Final

from fibernb.errors import ConfigError, NotConnected
from fibernb.transport.protocol import Arrival, Peer
from fibernb.transport.waker import Waker
from fibernb.wire.codec import MAX_HELLO_BYTES

_listening: Final[dict[str, MemoryListener]] = {}
_changed: Final = threading.Condition()  # somebody listens


def dial(name: str, timeout_s: float = 0.0) -> MemoryLink:
    """A link to the listener called ``name``, waiting up to ``timeout_s`` seconds for it; else `NotConnected`."""
    with _changed:
        _changed.wait_for(lambda: name in _listening, timeout_s)
        listener = _listening.get(name)
    if listener is None:
        raise NotConnected(f"cannot connect to memory:{name}: nobody in this process listens there")
    return listener.connect()


def listen(name: str, hello_bytes: int = MAX_HELLO_BYTES) -> MemoryListener:
    """A listener called ``name``; `ConfigError` when there is one."""
    with _changed:
        if name in _listening:
            raise ConfigError(f"cannot listen at memory:{name}: somebody in this process does; choose another name")
        _listening[name] = MemoryListener(name, hello_bytes)
        _changed.notify_all()
        return _listening[name]


class MemoryLink:
    """Implements `fibernb.transport.protocol.Link`."""

    def __init__(self, listener: MemoryListener, peer: Peer, lock: threading.RLock) -> None:
        self._listener = listener
        self._peer = peer
        self._changed = threading.Condition(lock)
        self._waker = Waker()
        self._arrived: deque[bytes] = deque()
        self._gone = ""  # why, if it is
        self._closed = False

    def send(self, message: bytes) -> None:
        with self._changed:
            if self._gone:
                raise NotConnected(self._gone)
            self._listener.take(self._peer, message)

    def receive(self, timeout_s: float | None = None) -> list[bytes]:
        with self._changed:
            self._changed.wait_for(lambda: self._arrived or self._gone, timeout_s)
            if self._closed or (self._gone and not self._arrived):
                raise NotConnected(self._gone)
            messages = list(self._arrived)
            self._arrived.clear()
            if not self._gone:
                self._waker.clear()
            return messages

    @property
    def quiet(self) -> bool:
        return True  # the waker stays awake until everything has been received

    def fileno(self) -> int:
        with self._changed:
            if self._closed:
                raise NotConnected(self._gone)
            return self._waker.fileno()

    def close(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            if not self._gone:
                self._listener.take(self._peer, None)
            self.end(f"the link to {self._listener.address} has been closed on this side")
            self._waker.close()

    # ---- for the listener --------------------------------------------------------------------------------

    def give(self, message: bytes) -> None:
        self._arrived.append(message)
        self._waker.wake()
        self._changed.notify_all()

    def end(self, reason: str) -> None:
        self._gone = reason
        self._waker.wake()
        self._changed.notify_all()


class MemoryListener:
    """Implements `fibernb.transport.protocol.Listener`."""

    def __init__(self, name: str, hello_bytes: int) -> None:
        self._name = name
        self._hello_bytes = hello_bytes
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._arrived: deque[Arrival] = deque()
        self._links: dict[Peer, MemoryLink] = {}
        self._limits: dict[Peer, int] = {}
        self._last_peer = 0
        self._refused = 0
        self._woken = False
        self._closed = False

    @property
    def address(self) -> str:
        return f"memory:{self._name}"

    @property
    def refused(self) -> int:
        return self._refused

    def poll(self, timeout_s: float | None) -> list[Arrival]:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        arrivals: list[Arrival] = []
        with self._changed:
            while not arrivals:
                left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                self._changed.wait_for(lambda: self._arrived or self._woken or self._closed, left_s)
                if self._closed:
                    raise NotConnected(f"the listener at {self.address} has been closed")
                self._judge(arrivals)
                if self._woken or left_s == 0.0:
                    break
            self._woken = False
        return arrivals

    def send(self, peer: Peer, message: bytes) -> None:
        with self._lock:
            link = self._links.get(peer)
            if link is not None:
                link.give(message)

    def limit(self, peer: Peer, max_bytes: int) -> None:
        with self._lock:
            if peer in self._links:
                self._limits[peer] = max_bytes

    def drop(self, peer: Peer) -> None:
        with self._lock:
            link = self._links.pop(peer, None)
            if link is not None:
                link.end(f"the link to {self.address} is gone: the other side has hung up")

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close(self) -> None:
        with _changed, self._changed:
            if self._closed:
                return
            self._closed = True
            del _listening[self._name]
            for peer in list(self._links):
                self.drop(peer)
            self._changed.notify_all()

    # ---- for the links -----------------------------------------------------------------------------------

    def connect(self) -> MemoryLink:
        with self._lock:
            if self._closed:
                raise NotConnected(f"cannot connect to {self.address}: the listener has been closed")
            self._last_peer += 1
            self._limits[self._last_peer] = self._hello_bytes
            self._links[self._last_peer] = MemoryLink(self, self._last_peer, self._lock)
            return self._links[self._last_peer]

    def take(self, peer: Peer, message: bytes | None) -> None:
        """From a link: a message, or None when it closes."""
        self._arrived.append(Arrival(peer, message))
        self._changed.notify_all()

    def _judge(self, arrivals: list[Arrival]) -> None:
        """Hand over what is within its peer's limit.

        What is over it and comes right behind other messages is judged by the next `poll`: those may be what raises it.
        """
        while self._arrived:
            peer, message = self._arrived[0]
            if peer in self._links:
                if message is not None and len(message) > self._limits[peer]:
                    if any(arrival.peer == peer for arrival in arrivals):
                        return
                    self._refused += 1
                    self.drop(peer)
                    message = None
                arrivals.append(Arrival(peer, message))
                if message is None:
                    self._links.pop(peer, None)
                    del self._limits[peer]
            self._arrived.popleft()
