"""The way from a member of a ring to the next one on the same host.

A *lane* is a Unix socket with a piece of shared memory beside it. What is small travels in the socket. What is large is
put into one of the slots of the shared memory, and the socket tells that it is there; the receiver works on it right in
the slot and then gives the slot back by a byte in the other direction. That the socket breaks tells that the other end
has gone. (Through the socket alone, a large array takes two to three times as long.)

A frame is a header, followed by its content if that is not in a slot.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import tempfile
from contextlib import suppress
from typing import Final, NamedTuple

SLOTS: Final = 8
SLOT_BYTES: Final = 512 * 1024
READ_BYTES: Final = 64 * 1024

_HEADER: Final = struct.Struct("<BxHII")  # kind, hops, chunk, size in bytes
IN_SLOT: Final = 1
IN_FRAME: Final = 2
CALL: Final = 3  # what the sender is about to do, as text


class LaneBroken(Exception):
    """The other end of a lane has gone: the member before this one (``side`` -1) or after it (1)."""

    def __init__(self, side: int) -> None:
        self.side = side
        super().__init__(side)


class Frame(NamedTuple):
    """What has come in. ``content`` is valid until the frame is dropped."""

    kind: int
    hops: int
    chunk: int
    content: memoryview


def slots_file() -> int:
    """A descriptor of new shared memory that has no name; takes memory only where it is written to."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fibernb-ring", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile(prefix="fibernb-ring-") as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, SLOTS * SLOT_BYTES)
    return descriptor


class Outlet:
    """The sending end. ``descriptor`` is that of the slots, which the receiver has as well."""

    def __init__(self, connection: socket.socket, descriptor: int) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._slots = memoryview(mmap.mmap(descriptor, SLOTS * SLOT_BYTES))
        self._free = SLOTS
        self._next = 0
        self._pending = bytearray()  # of the socket

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_pending(self) -> bool:
        """Whether something waits until the socket takes it."""
        return bool(self._pending)

    def free_slots(self, wanted: int) -> int:
        """How many slots are free; looks for slots that were given back if there are fewer than wanted."""
        if self._free < wanted:
            try:
                returned = len(self._socket.recv(SLOTS))
            except BlockingIOError:
                return self._free
            except OSError as error:
                raise LaneBroken(1) from error
            if not returned:
                raise LaneBroken(1)
            self._free += returned
        return self._free

    def slot(self, size_bytes: int) -> memoryview:
        """The memory of the next free slot, to be filled before `send_slot`."""
        start = self._next * SLOT_BYTES
        return self._slots[start : start + size_bytes]

    def send_slot(self, hops: int, chunk: int, size_bytes: int) -> None:
        """Let the slot go that was filled last."""
        self._free -= 1
        self._next = (self._next + 1) % SLOTS
        self._pending += _HEADER.pack(IN_SLOT, hops, chunk, size_bytes)
        self.flush()

    def send(self, kind: int, content: bytes | memoryview, hops: int = 0, chunk: int = 0) -> None:
        """Send content in the socket, after what is pending; leaves with the next `flush`."""
        self._pending += _HEADER.pack(kind, hops, chunk, len(content))
        self._pending += content

    def flush(self) -> None:
        """Give the socket what it takes now."""
        while self._pending:
            try:
                sent = self._socket.send(self._pending)
            except BlockingIOError:
                return
            except OSError as error:
                raise LaneBroken(1) from error
            del self._pending[:sent]

    def close(self) -> None:
        self._socket.close()


class Inlet:
    """The receiving end. ``descriptor`` is that of the sender's slots."""

    def __init__(self, connection: socket.socket, descriptor: int) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._slots = memoryview(mmap.mmap(descriptor, SLOTS * SLOT_BYTES)).toreadonly()
        self._next = 0
        self._received = bytearray()
        self._frame: Frame | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def holds_frame(self) -> bool:
        """Whether a frame has come in that was not dropped."""
        return self._frame is not None

    def frame(self) -> Frame | None:
        """The next frame, the same one until it is dropped; None when there is none yet.

        Raises `LaneBroken` when none will come.
        """
        while self._frame is None:
            self._frame = self._parsed()
            if self._frame is None and not self._read():
                return None
        return self._frame

    def drop(self) -> None:
        """Done with the frame."""
        frame, self._frame = self._frame, None
        if frame is not None and frame.kind == IN_SLOT:
            self._next = (self._next + 1) % SLOTS
            with suppress(OSError):  # a sender that has gone needs no slot; it is missed when more is expected of it
                self._socket.send(b"\0")

    def _read(self) -> bool:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            raise LaneBroken(-1) from error
        if not data:
            raise LaneBroken(-1)
        self._received += data
        return True

    def _parsed(self) -> Frame | None:
        if len(self._received) < _HEADER.size:
            return None
        kind, hops, chunk, size_bytes = _HEADER.unpack_from(self._received)
        if kind == IN_SLOT:
            start = self._next * SLOT_BYTES
            content = self._slots[start : start + size_bytes]
            del self._received[: _HEADER.size]
        else:
            end = _HEADER.size + size_bytes
            if len(self._received) < end:
                return None
            content = memoryview(bytes(self._received[_HEADER.size : end]))
            del self._received[:end]
        return Frame(kind, hops, chunk, content)

    def close(self) -> None:
        self._socket.close()
