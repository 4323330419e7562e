"""Values of any kind on their way round a ring: a small note about each, and its bytes."""

from __future__ import annotations

import importlib
import pickle
from typing import Any, Final

import msgspec

from fibernb import serialize
from fibernb.model import Struct

SMALL_BYTES: Final = 32 * 1024  # up to here a value travels as one message


class Note(Struct, frozen=True, kw_only=True):
    """What the others need to know of a value before its bytes come.

    ``kind`` is the pickled type and shape of an array, empty for other values. ``body`` is there for small ones only.
    """

    size_bytes: int
    kind: bytes = b""
    body: bytes | None = None


class Parcel:
    """A value of this member's, packed."""

    def __init__(self, value: Any) -> None:
        kind, self.body = _packed(value)
        small = len(self.body) <= SMALL_BYTES
        self.note = Note(size_bytes=len(self.body), kind=kind, body=bytes(self.body) if small else None)

    @property
    def data(self) -> bytes:
        """The note."""
        return msgspec.msgpack.encode(self.note)


class Arrival:
    """A value of another member's (or our own), to be unpacked once ``room``, if there is one, has been filled."""

    def __init__(self, data: bytes) -> None:
        self.note = msgspec.msgpack.decode(data, type=Note)
        self._array = _empty(self.note.kind) if self.note.kind else None
        if self._array is not None:
            self.room = as_bytes(self._array)
        else:
            self.room = memoryview(bytearray(self.note.size_bytes))
        if self.note.body is not None:
            self.room[:] = self.note.body

    @property
    def is_complete(self) -> bool:
        """Whether the bytes came with the note."""
        return self.note.body is not None

    def value(self) -> Any:
        return serialize.loads(self.room) if self._array is None else self._array


def is_array(value: Any) -> bool:
    """Whether this is an array of numpy, of anything but Python objects."""
    kind = type(value)
    return kind.__module__ == "numpy" and kind.__name__ == "ndarray" and not value.dtype.hasobject


def as_bytes(array: Any) -> memoryview:
    """The memory of an array without gaps."""
    return memoryview(array.reshape(-1).view("u1"))


def _packed(value: Any) -> tuple[bytes, memoryview]:
    if not is_array(value):
        return b"", memoryview(serialize.dumps(value))
    whole = value if value.flags.c_contiguous else value.copy()
    return pickle.dumps((value.dtype, value.shape)), as_bytes(whole)


def _empty(kind: bytes) -> Any:
    dtype, shape = pickle.loads(kind)
    return importlib.import_module("numpy").empty(shape, dtype)
