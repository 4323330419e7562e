"""The dialling end of ZeroMQ."""

from __future__ import annotations

import selectors
import threading
import time
from contextlib import suppress
from typing import Final

import zmq

from fibernb.errors import NotConnected
from fibernb.transport.waker import Waker
from fibernb.transport.zeromq_socket import Context, Socket, Word, monitored_events

ROOM_S: Final = 0.002  # between two looks whether a slow connection has made room
LAST_WORDS_MS: Final = 20  # how long what was received before the connection broke may need to come through


class ZeroMQLink:
    """Implements `fibernb.transport.protocol.Link`.

    A socket of ZeroMQ belongs to one thread at a time: a lock is held for each call of it, none of which waits. Waiting
    is done on descriptors. The socket's own becomes readable once for each change; a sending thread may take that
    notice in, and then wakes the receiving one.

    An interrupt while waiting does no harm. One in the middle of a call that receives may have lost a message, so it
    ends the link. ``close`` only marks the link while another thread uses it; the last one out closes.
    """

    def __init__(self, context: Context, dealer: Socket, monitor: Socket, address: str) -> None:
        self._context = context
        self._dealer = dealer
        self._monitor = monitor
        self._address = address
        self._arrived: list[bytes] = []
        self._lock = threading.Lock()
        self._receiving = threading.Lock()
        self._waker = Waker()
        self._selector = selectors.DefaultSelector()
        self._lost = False  # the connection has broken; what had arrived may still be taken in
        self._gone = ""  # why, when there is nothing more to take in
        self._closed = False
        self._disposed = False
        for descriptor in (dealer.fileno(), monitor.fileno(), self._waker.fileno()):
            self._selector.register(descriptor, selectors.EVENT_READ)
        dealer.send_multipart(Word.HELLO, zmq.NOBLOCK)

    def send(self, message: bytes) -> None:
        try:
            while not self._try_send(message):
                time.sleep(ROOM_S)
        finally:
            if self._closed:
                self._dispose()

    def receive(self, timeout_s: float | None = None) -> list[bytes]:
        try:
            with self._receiving:
                self._fill(timeout_s)
        finally:
            if self._closed:
                self._dispose()
        arrived = self._arrived
        self._arrived = []
        return arrived

    @property
    def quiet(self) -> bool:
        return False  # its descriptor tells of changes only

    def fileno(self) -> int:
        self._require_open()
        return self._selector.fileno()

    def close(self) -> None:
        self._closed = True
        self._waker.wake()
        self._dispose()

    def _dispose(self) -> None:
        """Unless a thread still uses the socket: then that one does it."""
        if self._lock.locked() or self._receiving.locked():
            return
        with self._lock, self._receiving:
            if self._disposed:
                return
            self._disposed = True
            self._selector.close()
            self._waker.close()
            self._look_at_monitor()
            if self._lost:  # there is nobody to wait for
                self._dealer.setsockopt(zmq.LINGER, 0)
            else:
                with suppress(zmq.Again):  # a listener that slow will find the connection broken
                    self._dealer.send_multipart(Word.GOODBYE, zmq.NOBLOCK)
            self._dealer.disable_monitor()
            self._monitor.close(linger=0)
            self._dealer.close()
            self._context.term()

    def _require_open(self) -> None:
        if self._closed:
            raise NotConnected(f"the link to {self._address} has been closed on this side")

    # ---- sending -----------------------------------------------------------------------------------------

    def _try_send(self, message: bytes) -> bool:
        with self._lock:
            self._require_open()
            try:
                self._dealer.send(message, zmq.NOBLOCK)
                sent = True
            except zmq.Again:
                self._look_at_monitor()
                sent = False
            if self._lost or self._gone:
                raise NotConnected(f"the link to {self._address} is gone: {self._gone or 'the connection broke'}")
            if int(self._dealer.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                self._waker.wake()
        return sent

    def _look_at_monitor(self) -> None:
        if monitored_events(self._monitor) & zmq.EVENT_DISCONNECTED:
            self._lost = True

    # ---- receiving ---------------------------------------------------------------------------------------

    def _fill(self, timeout_s: float | None) -> None:
        """Take in what has come, waiting for it; nothing when the time is over."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._arrived:
            with self._lock:
                self._require_open()
                if self._gone:
                    raise NotConnected(f"the link to {self._address} is gone: {self._gone}")
                self._take_in_all()
            if not self._arrived and not self._gone:
                left_s = None if deadline is None else deadline - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return
                self._selector.select(left_s)

    def _take_in_all(self) -> None:
        self._waker.clear()
        self._take_in()
        self._look_at_monitor()
        if self._lost and not self._gone:
            while self._dealer.poll(LAST_WORDS_MS):
                self._take_in()
            self._gone = "the other side has ended, or the connection broke"

    def _take_in(self) -> None:
        intact = False
        try:
            while not self._gone:
                self._sort(self._dealer.recv_multipart(zmq.NOBLOCK))
            intact = True
        except zmq.Again:
            intact = True
        finally:
            if not intact:
                self._gone = "it was interrupted in the middle of receiving"

    def _sort(self, frames: list[bytes]) -> None:
        if len(frames) == 1:
            self._arrived.append(frames[0])
        elif frames == Word.GOODBYE:
            self._gone = "the other side has hung up"
        elif frames != Word.PROBE:
            self._gone = "the other side does not speak this protocol"
