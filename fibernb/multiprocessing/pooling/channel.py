"""Messages over the file descriptor of a connection: one system call to send one, one to receive what has come."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Final, Generic, TypeVar

import msgspec

from fibernb.multiprocessing.pooling.messages import encoder

M = TypeVar("M")

HEADER: Final = struct.Struct("!Q")  # length of the message that follows, in bytes
READ_BYTES: Final = 2**16


class Channel(Generic[M]):
    """One end of a duplex connection that only this class reads and writes.

    Parameters
    ----------
    decoder : of what the other end may send.

    It takes no lock: at most one thread at a time may send, and one receive.
    """

    def __init__(self, connection: Connection, decoder: msgspec.msgpack.Decoder[M]) -> None:
        self._connection = connection
        self._decoder = decoder
        self._fd = connection.fileno()
        self._rest = b""
        self._large: memoryview | None = None  # a message larger than one read, as far as it has come
        self._filled = 0

    def fileno(self) -> int:
        """The descriptor, for a selector."""
        return self._fd

    def close(self) -> None:
        """Close the connection; the other end sees its end."""
        self._connection.close()

    def send(self, message: Any) -> None:
        """Send a message. Raises `OSError` when the other end has gone."""
        data = encoder.encode(message)
        header = HEADER.pack(len(data))
        if len(data) <= READ_BYTES:
            self._write(header + data)
        else:
            os.write(self._fd, header)
            self._write(data)

    def receive(self) -> list[M]:
        """Wait until something has come: the messages that are whole now, which may be none.

        Raises `EOFError` or `OSError` when the other end has gone.
        """
        if self._large is not None:
            return self._go_on(self._large)
        data = os.read(self._fd, READ_BYTES)
        if not data:
            raise EOFError("the other end of the connection has gone")
        if self._rest:
            data = self._rest + data
        elif len(data) >= HEADER.size and HEADER.unpack_from(data)[0] == len(data) - HEADER.size:  # just one, as a rule
            return [self._decoder.decode(memoryview(data)[HEADER.size :])]
        return list(self._split(data))

    def _write(self, data: bytes) -> None:
        written = os.write(self._fd, data)
        if written < len(data):
            rest = memoryview(data)[written:]
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def _split(self, data: bytes) -> Iterator[M]:
        start = 0
        while len(data) - start >= HEADER.size:
            (size,) = HEADER.unpack_from(data, start)
            end = start + HEADER.size + size
            if end > len(data):
                break
            yield self._decoder.decode(memoryview(data)[start + HEADER.size : end])
            start = end
        self._keep(data[start:])

    def _keep(self, rest: bytes) -> None:
        """What has come of a message that is not whole."""
        self._rest = rest
        if len(rest) < HEADER.size:
            return
        (size,) = HEADER.unpack_from(rest)
        if size > READ_BYTES:
            self._filled = len(rest) - HEADER.size
            self._large = memoryview(bytearray(size))
            self._large[: self._filled] = rest[HEADER.size :]
            self._rest = b""

    def _go_on(self, large: memoryview) -> list[M]:
        count = os.readv(self._fd, [large[self._filled :]])
        if not count:
            raise EOFError("the other end of the connection has gone in the middle of a message")
        self._filled += count
        if self._filled < len(large):
            return []
        self._large = None
        return [self._decoder.decode(large)]
