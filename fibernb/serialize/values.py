"""One value as one blob.

A blob is either a plain pickle, which begins with the byte 0x80, or a frame: a header (a byte 0x01, the number of
buffers, the length of the pickle, then length and read-only flag of every buffer), the pickle, and the buffers, each
aligned to 64 bytes.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterable
from typing import Any, Final

from fibernb.errors import SerializationError
from fibernb.serialize.culprit import explain
from fibernb.serialize.pickling import PROTOCOL, Pickler

ALIGNMENT_BYTES: Final = 64
SMALLEST_BUFFER_BYTES: Final = 4096  # smaller ones stay in the pickle
FRAME: Final = 0x01
PLAIN_ITEMS: Final = 64  # the largest container that is looked into to find that it is plain
PLAIN_DEPTH: Final = 3  # and how deep
REPR_CHARACTERS: Final = 10_000

_CONTAINERS: Final = frozenset({tuple, list, dict})
_ATOMS: Final = frozenset({type(None), bool, int, float, complex, str, bytes})
_HEAD: Final = struct.Struct("<B3xIQ")
_BUFFER: Final = struct.Struct("<Q?7x")


class Pickled:
    """Stands for a value that its maker has pickled already: `dumps` gives ``data``."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Unpicklable:
    """Stands for a value that could not leave its engine. Its repr is the value's own."""

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason

    @classmethod
    def of(cls, value: object, error: SerializationError) -> Unpicklable:
        return cls(_safe_repr(value), str(error))

    def __repr__(self) -> str:
        return self.text


def _safe_repr(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  a user's repr may raise anything
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= REPR_CHARACTERS else text[:REPR_CHARACTERS] + "..."


def dumps(value: object, name: str = "value") -> bytes:
    """Pickle a value.

    Raises `SerializationError` with the path to what cannot be pickled; ``name`` is the beginning of that path.
    """
    if is_plain(value):
        return pickle.dumps(value, PROTOCOL)
    if type(value) is Pickled:
        return value.data
    try:
        return _dumps_any(value)
    except Exception as error:
        raise explain(value, name, error) from error


def loads(data: bytes | memoryview) -> Any:
    """The value of a blob. Arrays that were writable are so again; read-only ones share the memory of ``data``."""
    if data[0] != FRAME:
        return pickle.loads(data)
    return _loads_frame(memoryview(data))


def is_plain(value: Any) -> bool:
    """Whether the standard pickle is certain to do: atoms, and small tuples, lists and dicts of them."""
    return type(value) in _ATOMS or _is_plain_container(value, PLAIN_DEPTH)


def _is_plain_container(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind not in _CONTAINERS or len(value) > PLAIN_ITEMS:
        return False
    if kind is dict:
        return _ATOMS.issuperset(map(type, value)) and _are_plain(value.values(), depth)
    return _are_plain(value, depth)


def _are_plain(items: Iterable[Any], depth: int) -> bool:
    if _ATOMS.issuperset(map(type, items)):
        return True
    return depth > 1 and all(type(item) in _ATOMS or _is_plain_container(item, depth - 1) for item in items)


def _dumps_any(value: object) -> bytes:
    buffers: list[memoryview] = []

    def keep_buffer(buffer: pickle.PickleBuffer) -> bool:
        """Take a buffer out of the pickle (false) or leave it there (true)."""
        view = buffer.raw()
        if view.nbytes < SMALLEST_BUFFER_BYTES:
            return True
        buffers.append(view)
        return False

    stream = io.BytesIO()
    Pickler(stream, keep_buffer).dump(value)
    return _frame(stream.getbuffer(), buffers) if buffers else stream.getvalue()


def _frame(pickled: memoryview, buffers: list[memoryview]) -> bytes:
    head = [_HEAD.pack(FRAME, len(buffers), len(pickled))]
    head += [_BUFFER.pack(view.nbytes, view.readonly) for view in buffers]
    parts: list[bytes | memoryview] = [*head, pickled]
    position = sum(map(len, parts))
    for view in buffers:
        padding = -position % ALIGNMENT_BYTES
        parts += [bytes(padding), view]
        position += padding + view.nbytes
    return b"".join(parts)


def _loads_frame(data: memoryview) -> Any:
    _, count, pickled_bytes = _HEAD.unpack_from(data)
    begin = _HEAD.size + count * _BUFFER.size
    position = begin + pickled_bytes
    buffers: list[memoryview | bytearray] = []
    for index in range(count):
        size, read_only = _BUFFER.unpack_from(data, _HEAD.size + index * _BUFFER.size)
        position += -position % ALIGNMENT_BYTES
        view = data[position : position + size]
        buffers.append(view.toreadonly() if read_only else bytearray(view))
        position += size
    return pickle.loads(data[begin : begin + pickled_bytes], buffers=buffers)
