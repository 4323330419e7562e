"""Whole messages over a byte stream: a prefix of eight bytes, then the message.

The prefix is the length in its low half and a fixed mark in its high half. Taken together as one number, a prefix that
is foreign or out of step is far above every limit: one comparison finds both it and a message that is too large.

Both classes here stay in order when a signal handler raises in the middle of them. CPython runs handlers
when a function begins, when a loop turns and when a call returns, and nowhere between. Hence two habits:

* system calls are made as ``results.extend(map(call, arguments))``, which stores how much was received or sent before
  any handler can run;
* assignments that belong together stand together, with no call between them.

Whatever was under way is taken up by the next call.
"""

from __future__ import annotations

import io
import socket
import struct
from collections import deque
from itertools import islice
from typing import Final

PREFIX: Final = struct.Struct("<Q")
HEAD: Final = PREFIX.size
MARK: Final = 0x464E4231 << 32  # "FNB1"

LARGE_BYTES: Final = 16 * 1024  # an incomplete message from this size on gets memory of its own
JOIN_BYTES: Final = 16 * 1024  # up to this size, copying a message behind its prefix is cheaper than passing both
GATHER_BUFFERS: Final = 64  # at most in one system call

# Plain numbers, since combining the enumeration's members is slow.
NO_WAIT: Final = int(socket.MSG_DONTWAIT)
NO_SIGNAL: Final = int(getattr(socket, "MSG_NOSIGNAL", 0))  # a broken link is an error, never a SIGPIPE


_prefix_of: Final = PREFIX.unpack_from


class FrameError(Exception):
    """The stream holds what is no prefix of ours, or announces a message over the limit."""


class Inbox:
    """Cuts a stream into messages.

    Parameters
    ----------
    max_bytes : the largest message that is accepted; may be changed at any time.
    scratch : memory to receive into, which several inboxes of one thread may share. Its size is the most that one
        system call receives of small messages.
    """

    __slots__ = ("_counts", "_large", "_rest", "_scratch", "ended", "filled", "held", "max_bytes", "ready")

    def __init__(self, max_bytes: int, scratch: memoryview) -> None:
        self.max_bytes = max_bytes
        self.ready: list[bytes] = []
        self.ended = False
        self.filled = False  # the last `read` has got as much as there was room for: there may be more
        self._scratch = scratch
        self._counts: list[int] = []  # received but not yet cut: at most one
        self._rest = b""  # the beginning of a message
        self.held = False  # a message over the limit came behind others, which may change the limit when they are heard
        self._large: _LargeMessage | None = None

    @property
    def keeps(self) -> bool:
        """Whether there is something here that the next `take`, or a further `read`, would give."""
        return bool(self.ready or self.held or self._counts)

    def take(self) -> list[bytes]:
        """The whole messages, which are the caller's from now on."""
        ready = self.ready
        self.ready = []
        return ready

    def read(self, stream: socket.socket, flags: int = 0) -> None:
        """Read from the stream once and cut, or only cut what is held. Only with ``ready`` empty.

        Raises `FrameError`; what the system call raises goes through.
        """
        if self._rest or self._counts or self._large is not None:
            self._read_on(stream, flags)
            return
        scratch = self._scratch
        self._counts.extend(map(stream.recv_into, (scratch,), (0,), (flags,)))
        count = self._counts[0]
        self.filled = count == len(scratch)
        if count > HEAD and _prefix_of(scratch)[0] ^ MARK == count - HEAD <= self.max_bytes:
            message = bytes(scratch[HEAD:count])  # one and no more: the usual case
            self._counts, self.ready = [], [message]
        else:
            self._read_on(stream, flags)

    def _read_on(self, stream: socket.socket, flags: int) -> None:
        """As `read`, where something was received before, or something else than one whole message."""
        if self._large is not None:
            self._read_large(self._large, stream, flags)
            return
        rest, scratch = self._rest, self._scratch
        beginning = len(rest)
        if not self.held and not self._counts:
            self._counts.extend(map(stream.recv_into, (scratch[beginning:],), (0,), (flags,)))
        count = sum(self._counts)
        self.filled = count == len(scratch) - beginning
        if beginning:
            scratch[:beginning] = rest
        if count or self.held:
            self._cut(scratch[: beginning + count])
        else:
            self.ended = True

    def _read_large(self, large: _LargeMessage, stream: socket.socket, flags: int) -> None:
        self.filled = large.read(stream, flags)
        if self.filled:
            message = large.message()
            self._large, self.ready = None, [message]
        elif large.ended:
            self.ended = True

    def _cut(self, data: memoryview) -> None:
        messages: list[bytes] = []
        start, size, length, held = 0, len(data), 0, False
        while size - start >= HEAD:
            length = _prefix_of(data, start)[0] ^ MARK
            held = length > self.max_bytes
            end = start + HEAD + length
            if held or end > size:
                break
            messages.append(bytes(data[start + HEAD : end]))
            start = end
        if held and not messages:
            raise FrameError(f"a message of {length:,} bytes, where {self.max_bytes:,} are allowed")
        rest, large = data[start:], None
        if not held and length >= LARGE_BYTES and len(rest) >= HEAD:
            large = _LargeMessage(length, rest[HEAD:])
            rest = rest[:0]
        kept = bytes(rest)
        self._counts, self._rest, self.held, self._large, self.ready = [], kept, held, large, messages


class _LargeMessage:
    """A message that is received straight into its own memory.

    That memory is a `io.BytesIO`: the one writable buffer that can become ``bytes`` without a copy.
    """

    __slots__ = ("_buffer", "_counts", "_filled", "_length", "_view", "ended")

    def __init__(self, length: int, beginning: memoryview) -> None:
        self.ended = False
        self._length = length
        self._filled = len(beginning)
        self._counts: list[int] = []  # received but not yet added: at most one
        self._buffer = io.BytesIO()
        self._buffer.seek(length - 1)
        self._buffer.write(b"\0")
        self._view = self._buffer.getbuffer()
        self._view[: self._filled] = beginning

    def read(self, stream: socket.socket, flags: int) -> bool:
        """Read once; whether the message is complete."""
        if self._filled < self._length and not self._counts:
            self._counts.extend(map(stream.recv_into, (self._view[self._filled :],), (0,), (flags,)))
        filled = self._filled + sum(self._counts)
        self.ended = filled == self._filled
        self._filled, self._counts = filled, []
        return filled == self._length

    def message(self) -> bytes:
        self._view.release()
        return self._buffer.getvalue()


class Outbox:
    """Messages that are to go out, the first of them perhaps in part."""

    __slots__ = ("_buffers", "_counts", "_offset")

    def __init__(self) -> None:
        self._buffers: deque[bytes] = deque()
        self._offset = 0  # how much has gone, from the beginning of the first buffer
        self._counts: list[int] = []  # sent but not yet added to the offset: at most one

    def __bool__(self) -> bool:
        return bool(self._buffers)

    def push(self, message: bytes) -> None:
        size = len(message)
        prefix = PREFIX.pack(MARK | size)
        if size <= JOIN_BYTES:
            self._buffers.append(prefix + message)
        else:
            self._buffers.extend((prefix, message))

    def write(self, stream: socket.socket, flags: int = 0) -> bool:
        """Send as much as one system call takes; whether all has gone. What the system call raises goes through."""
        buffers = self._buffers
        if len(buffers) == 1 and not self._counts and not self._offset:  # the usual case
            self._counts.extend(map(stream.send, buffers, (flags | NO_SIGNAL,)))
            if self._counts[0] == len(buffers[0]):
                del buffers[0]
                self._counts = []
                return True
            self._settle()
            return False
        if self._counts or self._offset:
            self._settle()
        if not buffers:
            return True
        first = memoryview(buffers[0])[self._offset :] if self._offset else buffers[0]
        if len(buffers) == 1:
            sent = map(stream.send, (first,), (flags | NO_SIGNAL,))
        else:
            gathered = (first, *islice(buffers, 1, GATHER_BUFFERS))
            sent = map(stream.sendmsg, (gathered,), ((),), (flags | NO_SIGNAL,))
        self._counts.extend(sent)
        self._settle()
        return not buffers

    def _settle(self) -> None:
        """Let go of the buffers that have gone."""
        buffers = self._buffers
        offset = self._offset + sum(self._counts)
        self._offset, self._counts = offset, []
        while buffers:
            size = len(buffers[0])
            if offset < size:
                break
            offset -= size
            del buffers[0]
            self._offset = offset
