"""How a pickle and the buffers that left it stand together.

Three forms, told apart by the first byte of the blob:

- 0x80: a plain pickle, without buffers.
- 0x01, a *frame*: a header (the number of buffers, the length of the pickle, then length and read-only flag of every
  buffer), the pickle, and the buffers, each aligned to 64 bytes.
- 0x02, a *stored frame*: the buffers stand in one block of the host's object store. A header (the number of buffers,
  the length of the pickle, the block, then offset in the block and length of every buffer), and the pickle; if that is
  large, it is the first of the buffers, and its length is given as 0.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any, Final

from fibernb.errors import SerializationError
from fibernb.model import BlockId
from fibernb.serialize.stores import Source

ALIGNMENT_BYTES: Final = 64
FRAME: Final = 0x01
STORED: Final = 0x02

_HEAD: Final = struct.Struct("<B3xIQ")
_BUFFER: Final = struct.Struct("<Q?7x")
_STORED_HEAD: Final = struct.Struct("<B3xIQQ")
_STORED_BUFFER: Final = struct.Struct("<QQ")


def frame(pickled: memoryview, buffers: Sequence[memoryview]) -> bytes:
    """A frame: everything in one blob."""
    return b"".join(frame_parts(pickled, buffers))


def frame_parts(pickled: bytes | memoryview, buffers: Sequence[memoryview]) -> list[bytes | memoryview]:
    """A frame, in parts that are to be joined."""
    head = [_HEAD.pack(FRAME, len(buffers), len(pickled))]
    head += [_BUFFER.pack(view.nbytes, view.readonly) for view in buffers]
    parts: list[bytes | memoryview] = [*head, pickled]
    position = sum(map(len, parts))
    for view in buffers:
        padding = -position % ALIGNMENT_BYTES
        parts += [bytes(padding), view]
        position += padding + view.nbytes
    return parts


def stored_frame(
    pickled: bytes | memoryview, block: BlockId, offsets: Sequence[int], buffers: Sequence[memoryview]
) -> bytes:
    """A stored frame of buffers that stand at these offsets of the block; ``pickled`` empty: in the first of them."""
    head = [_STORED_HEAD.pack(STORED, len(buffers), len(pickled), block)]
    head += [_STORED_BUFFER.pack(offset, view.nbytes) for offset, view in zip(offsets, buffers, strict=True)]
    return b"".join((*head, pickled))


def loads_frame(data: memoryview, own: bool = False) -> Any:
    """The value of a frame; its buffers are copied if they were writable, and are writable again.

    Parameters
    ----------
    own : the value is to be whole and writable, and may use the memory of ``data`` for it: nobody else does.
    """
    _, count, pickled_bytes = _HEAD.unpack_from(data)
    begin = _HEAD.size + count * _BUFFER.size
    position = begin + pickled_bytes
    buffers: list[memoryview | bytearray] = []
    for index in range(count):
        size, read_only = _BUFFER.unpack_from(data, _HEAD.size + index * _BUFFER.size)
        position += -position % ALIGNMENT_BYTES
        view = data[position : position + size]
        if own:
            buffers.append(bytearray(view) if view.readonly else view)
        else:
            buffers.append(view.toreadonly() if read_only else bytearray(view))
        position += size
    return pickle.loads(data[begin : begin + pickled_bytes], buffers=buffers)


def loads_stored_frame(data: memoryview, source: Source | None) -> Any:
    """The value of a stored frame; its buffers are those in the store, read-only. Raises `BlockGone`."""
    _, count, pickled_bytes, block = _STORED_HEAD.unpack_from(data)
    if source is None:
        raise SerializationError(
            "the value stands in the object store of its host, to which this process has no link: get it with fnb.get"
        )
    begin = _STORED_HEAD.size + count * _STORED_BUFFER.size
    memory = source.map(block)
    places = [_STORED_BUFFER.unpack_from(data, at) for at in range(_STORED_HEAD.size, begin, _STORED_BUFFER.size)]
    buffers = [memory[offset : offset + size] for offset, size in places]
    pickled = data[begin : begin + pickled_bytes] if pickled_bytes else buffers.pop(0)
    return pickle.loads(pickled, buffers=buffers)


def value_bytes(data: bytes) -> int:
    """How large a value is: its blob and, if that is a stored frame, its buffers in the store."""
    if data[:1] != bytes((STORED,)):
        return len(data)
    count = _STORED_HEAD.unpack_from(data)[1]
    buffers = data[_STORED_HEAD.size : _STORED_HEAD.size + count * _STORED_BUFFER.size]
    return len(data) + sum(int(size) for _, size in _STORED_BUFFER.iter_unpack(buffers))
