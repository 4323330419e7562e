"""Arrays that are combined. The only module of the collectives that needs numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from fibernb.collectives.memory import Room
from fibernb.collectives.schedule import Chunk, Deed

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Combine: TypeAlias = Callable[..., Any]

OPERATIONS: Final[dict[str, np.ufunc]] = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


class Combined:
    """Arrays without gaps, as one row of items, that are combined item by item.

    Parameters
    ----------
    source : what this member brings; only read.
    target : where the result goes; may be the source.
    combine : as a numpy function of two arrays, with ``out``.
    offset : the item of the source that is the first one of the target.
    """

    def __init__(self, source: Array, target: Array, combine: Combine, offset: int = 0) -> None:
        self._source = source.reshape(-1)
        self._target = target.reshape(-1)
        self._combine = combine
        self._offset = offset

    def give(self, chunk: Chunk, room: Room) -> None:
        items = self._source[chunk.start : chunk.stop]
        self._items(room(items.nbytes))[:] = items

    def take(self, chunk: Chunk, deed: Deed, content: memoryview, room: Room) -> None:
        came = self._items(content)
        goes = self._items(room(content.nbytes)) if deed.forward else None
        kept = self._target[chunk.start - self._offset : chunk.stop - self._offset] if deed.keep else None
        if deed.reduce:
            first = kept if kept is not None else goes
            came = self._combine(self._source[chunk.start : chunk.stop], came, out=first)
        for wanted in (kept, goes):
            if wanted is not None and wanted is not came:
                wanted[:] = came

    def _items(self, memory: memoryview) -> Array:
        return np.frombuffer(memory, self._source.dtype)


class Request:
    """An array that is to be combined with those of the others.

    Parameters
    ----------
    value : the array.
    op : a name of `OPERATIONS`, or a numpy function of two arrays (a ufunc) that gives the same type.

    Raises `ValueError` or `TypeError` for what cannot be.
    """

    def __init__(self, value: Any, op: str | np.ufunc) -> None:
        self.name = op if isinstance(op, str) else op.__name__
        self.combine = operation(op)
        self.source = _prepared(np.asarray(value), op)
        kind = self.combine(self.source.reshape(-1)[:0], self.source.reshape(-1)[:0]).dtype
        if kind != self.source.dtype:
            raise TypeError(f"{self.name} of {self.source.dtype} gives {kind}: pass an array of {kind}")

    def __str__(self) -> str:
        return f"{self.name} of {self.source.dtype} {self.source.shape}"

    def target(self, shape: tuple[int, ...], out: Array | None) -> Array:
        """Memory without gaps for the result: ``out`` if that will do. Raises `ValueError` if it cannot be filled."""
        if out is None:
            return np.empty(shape, self.source.dtype)
        if out.shape != shape or out.dtype != self.source.dtype:
            raise ValueError(
                f"the result is {self.source.dtype} {shape}, and out is {out.dtype} {out.shape}: they must be alike"
            )
        if not out.flags.writeable:
            raise ValueError("out is read-only: pass an array that may be written to, or none")
        return out if out.flags.c_contiguous else np.empty(shape, out.dtype)

    def finished(self, target: Array, size: int, out: Array | None) -> Array:
        """The result, in ``out`` if that was given."""
        if self.name == "mean":
            np.divide(target, size, out=target)
        if out is None or out is target:
            return target
        out[...] = target
        return out


def operation(op: str | np.ufunc) -> np.ufunc:
    """The function that combines two arrays. Raises `ValueError` when there is none of that name."""
    if isinstance(op, str):
        if op not in OPERATIONS:
            raise ValueError(f"there is no operation {op!r}: use {', '.join(OPERATIONS)}, or a numpy ufunc")
        return OPERATIONS[op]
    if op.nin != 2 or op.nout != 1:
        raise ValueError(f"{op.__name__} does not combine two arrays into one")
    return op


def _prepared(array: Array, op: str | np.ufunc) -> Array:
    """Without gaps, and of the type in which the result comes: as in numpy, truth values are counted."""
    if array.dtype.hasobject:
        raise TypeError("an array of Python objects cannot be combined: use allgather")
    if op == "mean" and array.dtype.kind in "bui":
        return array.astype(np.float64)
    if op in ("sum", "prod") and array.dtype.kind == "b":
        return array.astype(np.int64)
    return np.ascontiguousarray(array).reshape(array.shape)
