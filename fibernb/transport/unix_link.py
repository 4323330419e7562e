"""The dialling end of a Unix socket."""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import suppress
from typing import Final

from fibernb.errors import NotConnected
from fibernb.transport.framing import NO_WAIT, FrameError, Inbox, Outbox

SCRATCH_BYTES: Final = 64 * 1024


class UnixLink:
    """Implements `fibernb.transport.protocol.Link`.

    The socket blocks, so that a call costs one system call. An interrupted ``send`` has handed its message over
    whole or not at all; what is missing follows with the next ``send`` or ``receive``.

    The descriptor is closed only when no thread is inside a call that uses it: ``close`` shuts the connection down,
    which wakes them, and the last one out closes. Hence the two locks, each held while that direction is in use. They
    are taken by ``with`` only: between an ``acquire`` and its ``try``, an interrupt would leave them locked for ever.

    Parameters
    ----------
    connection : a connected, blocking socket.
    address : for messages to people.
    max_bytes : the largest message that is accepted.
    """

    def __init__(self, connection: socket.socket, address: str, max_bytes: int) -> None:
        self._socket = connection
        self._address = address
        self._inbox = Inbox(max_bytes, memoryview(bytearray(SCRATCH_BYTES)))
        self._outbox = Outbox()
        self._sending = threading.Lock()
        self._receiving = threading.Lock()
        self._closing = threading.RLock()  # entered again when a signal handler closes
        self._closed = False

    def send(self, message: bytes) -> None:
        try:
            with self._sending:
                if self._closed:
                    self._require_open()
                self._outbox.push(message)
                while not self._outbox.write(self._socket):
                    continue
        except NotConnected:
            raise
        except OSError as error:
            raise NotConnected(f"the link to {self._address} is gone: {error.strerror}") from error
        finally:
            if self._closed:
                self._close_descriptor()

    def receive(self, timeout_s: float | None = None) -> list[bytes]:
        if not self._inbox.ready:
            try:
                with self._receiving:
                    self._fill(timeout_s)
            except NotConnected:
                raise
            except (OSError, FrameError) as error:
                raise NotConnected(f"the link to {self._address} is gone: {error}") from error
            finally:
                if self._closed:
                    self._close_descriptor()
        return self._inbox.take()

    @property
    def quiet(self) -> bool:
        return not self._inbox.keeps and not self._outbox

    def fileno(self) -> int:
        self._require_open()
        return self._socket.fileno()

    def close(self) -> None:
        with self._closing:
            if not self._closed:
                with suppress(OSError):  # the other side was faster
                    self._socket.shutdown(socket.SHUT_RDWR)
                self._closed = True
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        """Unless a thread still uses it: then that one does it."""
        if self._sending.locked() or self._receiving.locked():
            return
        with self._sending, self._receiving:
            self._socket.close()

    def _require_open(self) -> None:
        if self._closed:
            raise NotConnected(f"the link to {self._address} has been closed on this side")

    # ---- receiving ---------------------------------------------------------------------------------------

    def _fill(self, timeout_s: float | None) -> None:
        """Read until there is a message, or the time is over."""
        inbox = self._inbox
        deadline = time.monotonic() + timeout_s if timeout_s else None
        while not inbox.ready:
            if self._closed:
                self._require_open()
            if inbox.ended:
                raise NotConnected(f"the link to {self._address} is gone: the other side has ended or hung up")
            unsent = bool(self._outbox) and not self._finish_sending()
            if timeout_s is None and not unsent:
                inbox.read(self._socket)
            elif timeout_s == 0:
                if not self._read_now():
                    return
            elif not self._read_within(deadline, unsent):
                return

    def _read_within(self, deadline: float | None, unsent: bool) -> bool:
        """Read once when there is something, or when there will be before the deadline; False when it has passed."""
        left_s = None if deadline is None else deadline - time.monotonic()
        poller = select.poll()
        poller.register(self._socket, select.POLLIN | (select.POLLOUT if unsent else 0))
        events = poller.poll(None if left_s is None else max(left_s * 1000, 0))
        if events and events[0][1] != select.POLLOUT:
            self._inbox.read(self._socket, NO_WAIT)
        return bool(events)

    def _read_now(self) -> bool:
        """Read once what is there; False when nothing is. A system call less than asking first."""
        try:
            self._inbox.read(self._socket, NO_WAIT)
        except BlockingIOError:
            return False
        return True

    def _finish_sending(self) -> bool:
        """Send on what an interrupted ``send`` has left, without waiting; False when there is more of it.

        Nothing is to be done while another thread sends (it will), nor when the link is gone (reading will tell).
        """
        if self._sending.locked():
            return True
        try:
            with self._sending:
                while not self._outbox.write(self._socket, NO_WAIT):
                    continue
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True
