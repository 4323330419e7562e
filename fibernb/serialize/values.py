"""One value as one blob, of the forms that `fibernb.serialize.frames` tells.

`dumps` is for what never goes to the object store; `pack` puts large buffers there.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from fibernb.errors import SerializationError
from fibernb.model import BlockId, ObjectId
from fibernb.serialize.culprit import explain
from fibernb.serialize.frames import FRAME, STORED, frame, loads_frame, loads_stored_frame, stored_frame
from fibernb.serialize.pickling import PROTOCOL, Pickler
from fibernb.serialize.references import collecting
from fibernb.serialize.stores import Sink, Source

SMALLEST_BUFFER_BYTES: Final = 4096  # smaller ones stay in the pickle
PLAIN_ITEMS: Final = 64  # the largest container that is looked into to find that it is plain
PLAIN_DEPTH: Final = 3  # and how deep
REPR_CHARACTERS: Final = 10_000

_CONTAINERS: Final = frozenset({tuple, list, dict})
_ATOMS: Final = frozenset({type(None), bool, int, float, complex, str, bytes})


class Packed(NamedTuple):
    """A value on its way."""

    data: bytes
    blocks: tuple[BlockId, ...] = ()  # of the store, that it stands in
    refs: tuple[ObjectId, ...] = ()  # whose references stand inside


class Pickled:
    """Stands for a value that its maker has pickled already: `dumps` gives ``data``."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Contents:
    """Stands for bytes that leave the pickle as a buffer."""

    __slots__ = ("value",)

    def __init__(self, value: bytes) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (pickle.PickleBuffer(self.value),)


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


def pack(value: object, name: str = "value", sink: Sink | None = None) -> Packed:
    """Pickle a value, and put its large buffers into the store.

    Raises `SerializationError` as `dumps` does, and `StoreFull`.
    """
    if is_plain(value):
        return pack_plain(value, sink)
    if type(value) is Pickled:
        return Packed(value.data)
    try:
        with collecting() as refs:
            pickled, buffers = dumps_apart(value)
    except Exception as error:
        raise explain(value, name, error) from error
    return packed_apart(pickled, buffers, tuple(refs), sink)


def loads(data: bytes | memoryview, source: Source | None = None) -> Any:
    """The value of a blob.

    Arrays that were writable are so again; read-only ones share the memory of ``data``. Those in the store are
    read-only, and shared with everybody who has the value. Raises `BlockGone` when the store has them no more.
    """
    kind = data[0]
    if kind == FRAME:
        return loads_frame(memoryview(data))
    if kind == STORED:
        return loads_stored_frame(memoryview(data), source)
    return pickle.loads(data)


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
    pickled, buffers = dumps_apart(value)
    return frame(pickled, buffers) if buffers else bytes(pickled)


def dumps_apart(value: object, pickler: type[Pickler] = Pickler) -> tuple[memoryview, list[memoryview]]:
    """The pickle, and the buffers that have left it."""
    buffers: list[memoryview] = []

    def keep_buffer(buffer: pickle.PickleBuffer) -> bool:
        """Take a buffer out of the pickle (false) or leave it there (true)."""
        view = buffer.raw()
        if view.nbytes < SMALLEST_BUFFER_BYTES:
            return True
        buffers.append(view)
        return False

    stream = io.BytesIO()
    pickler(stream, keep_buffer).dump(value)
    return memoryview(stream.getvalue()), buffers


def pack_plain(value: Any, sink: Sink | None) -> Packed:
    """As `pack`, for what `is_plain` has been said of, or that contains no more than that."""
    if sink is not None and type(value) is bytes and len(value) > sink.inline_bytes:
        return _stored(*dumps_apart(_Contents(value)), (), sink)
    data = pickle.dumps(value, PROTOCOL)
    if sink is not None and len(data) > sink.inline_bytes:
        return _stored(b"", [memoryview(data)], (), sink)
    return Packed(data)


def packed_apart(
    pickled: memoryview, buffers: list[memoryview], refs: tuple[ObjectId, ...], sink: Sink | None
) -> Packed:
    """What `dumps_apart` gives, in the store if it is large."""
    if sink is not None:
        if len(pickled) > sink.inline_bytes:
            return _stored(b"", [pickled, *buffers], refs, sink)
        if sum(view.nbytes for view in buffers) > sink.inline_bytes:
            return _stored(pickled, buffers, refs, sink)
    return Packed(frame(pickled, buffers) if buffers else bytes(pickled), (), refs)


def _stored(pickled: bytes | memoryview, buffers: list[memoryview], refs: tuple[ObjectId, ...], sink: Sink) -> Packed:
    block, offsets = sink.write(buffers)
    return Packed(stored_frame(pickled, block, offsets, buffers), (block,), refs)
