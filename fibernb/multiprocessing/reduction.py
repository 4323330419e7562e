"""Values as they travel between processes: through pipes and queues, as arguments of processes and pools.

As with the library, what arrives is a copy of its own, and writable. Beside what `fibernb.serialize` can send (whatever
a notebook defines), connections and sockets go along, and what was registered with the library's `ForkingPickler`.
"""

from __future__ import annotations

import io
import pickle
import socket
import types
from collections import ChainMap
from collections.abc import Callable
from multiprocessing import connection
from multiprocessing.reduction import HAVE_SEND_HANDLE, ForkingPickler, recv_handle, send_handle
from typing import Any, Final, TypeAlias

from fibernb.multiprocessing import module_globals
from fibernb.multiprocessing.descriptors import Ticket, deposit, redeem
from fibernb.serialize.frames import FRAME, frame, loads_frame
from fibernb.serialize.pickling import PROTOCOL, Pickler, restore_function
from fibernb.serialize.values import PLAIN_ITEMS, SMALLEST_BUFFER_BYTES, is_plain

__all__ = [
    "HAVE_SEND_HANDLE",
    "Dumper",
    "ForkingPickler",
    "dump",
    "dumps",
    "loads",
    "recv_handle",
    "register",
    "send_handle",
]

Reduced: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

CONTAINERS: Final = frozenset({tuple, list, dict, set})
NUMBERS: Final = "biufc"  # kinds of numpy's types

register: Final = ForkingPickler.register


def dumps(value: object) -> bytes:
    """Pickle a value, whole. What cannot be pickled raises the error of the part that cannot, as with the library."""
    if is_plain(value):
        return pickle.dumps(value, PROTOCOL)
    buffers: list[memoryview] = []
    if _has_plain_arrays(value):
        pickled = pickle.dumps(value, PROTOCOL, buffer_callback=_putting_aside(buffers))
    else:
        stream = io.BytesIO()
        _Pickler(stream, _putting_aside(buffers)).dump(value)
        pickled = stream.getvalue()
    return frame(memoryview(pickled), buffers) if buffers else pickled


class Dumper:
    """Pickles values one after the other, each as `dumps` does: quicker for many of them. For one thread at a time."""

    def __init__(self) -> None:
        self._begin()

    def dumps(self, value: object) -> bytes:
        """Pickle a value, whole."""
        if type(value) not in CONTAINERS and _is_plain_array(value):
            return dumps(value)
        stream = self._stream
        try:
            self._pickler.dump(value)
        except BaseException:
            self._begin()
            raise
        pickled = stream.getvalue()
        stream.seek(0)
        stream.truncate()
        self._pickler.forget()
        if not self._buffers:
            return pickled
        framed = frame(memoryview(pickled), self._buffers)
        self._buffers.clear()
        return framed

    def _begin(self) -> None:
        self._stream = io.BytesIO()
        self._buffers: list[memoryview] = []
        self._pickler = _Pickler(self._stream, _putting_aside(self._buffers))


def _has_plain_arrays(value: object) -> bool:
    """Whether this is an array of numbers, or a tuple of such and of plain values: the standard pickle is faster."""
    if type(value) is tuple and len(value) <= PLAIN_ITEMS:
        return all(is_plain(item) or _is_plain_array(item) for item in value)
    return _is_plain_array(value)


def _is_plain_array(value: Any) -> bool:
    if type(value).__name__ != "ndarray" or type(value).__module__ != "numpy":
        return False
    flags = value.flags
    return flags.writeable and flags.c_contiguous and value.dtype.kind in NUMBERS


def loads(data: bytes | memoryview) -> Any:
    """The value of a pickle. If ``data`` is writable, large arrays stand in it: nobody else may use that memory."""
    if data[0] == FRAME:
        return loads_frame(memoryview(data), own=True)
    return pickle.loads(data)


def dump(value: object, file: Any, protocol: int | None = None) -> None:  # noqa: ARG001  the library's
    """Pickle a value into a file. The protocol is always the same."""
    _Pickler(file).dump(value)


def _putting_aside(buffers: list[memoryview]) -> Callable[[pickle.PickleBuffer], bool]:
    def put_aside(buffer: pickle.PickleBuffer) -> bool:
        """Take a buffer out of the pickle (false) or leave it there (true)."""
        view = buffer.raw()
        if view.nbytes < SMALLEST_BUFFER_BYTES:
            return True
        buffers.append(view)
        return False

    return put_aside


# ---- what has a descriptor ------------------------------------------------------------------------------


def reduce_connection(end: connection.Connection) -> Reduced:
    """How to make a connection again, of the same class."""
    return rebuild_connection, (type(end), deposit(end.fileno()), end.readable, end.writable)


def rebuild_connection(class_: type[connection.Connection], ticket: Ticket, readable: bool, writable: bool) -> Any:
    """Called while unpickling."""
    return class_(redeem(ticket), readable, writable)


def _reduce_socket(sent: socket.socket) -> Reduced:
    return _rebuild_socket, (deposit(sent.fileno()), sent.family, sent.type, sent.proto)


def _rebuild_socket(ticket: Ticket, family: int, kind: int, protocol: int) -> socket.socket:
    return socket.socket(family, kind, protocol, fileno=redeem(ticket))


def restore_shared(function: types.FunctionType, stamped: tuple[Any, dict[str, Any], dict[str, int]]) -> None:
    """Called while unpickling: fill in a function whose globals are shared with others of its module."""
    state, values, versions = stamped
    restore_function(function, state)
    module_globals.bring(function, values, versions)


class _Pickler(Pickler):
    """Sends what the library's can."""

    dispatch_table = ChainMap(
        {connection.Connection: reduce_connection, socket.socket: _reduce_socket},
        ForkingPickler._extra_reducers,  # type: ignore[attr-defined]
        Pickler.dispatch_table,
    )

    def __init__(self, file: Any, keep_buffer: Callable[[Any], object] | None = None) -> None:
        super().__init__(file, keep_buffer)
        self._shared: dict[module_globals.Origin, module_globals.Shared] = {}

    def forget(self) -> None:
        """The next value has no part in common with the last one."""
        self.clear_memo()
        if self._late_globals or self._shared:
            self._late_globals.clear()
            self._shared.clear()

    def _adapt_function(self, function: types.FunctionType, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
        origin = module_globals.origin_of(function)
        maker, arguments, packed, _, _, restore = super()._adapt_function(function, reduced)
        if origin is None:
            return maker, arguments, packed, None, None, restore
        code, facts, *rest = reduced[1]
        shared = self._shared.setdefault(origin, module_globals.Shared(origin, facts))
        setter, (attributes, slots), excerpt = packed
        values = slots["__globals__"]
        state = setter, (attributes, {**slots, "__globals__": {}}), excerpt
        stamped = state, values, module_globals.versions_of(origin, values)
        return maker, (code, shared, *rest), stamped, None, None, restore_shared

    def reducer_override(self, value: Any) -> Any:
        if type(value).__name__ == "ndarray" and type(value).__module__ == "numpy" and not value.flags.writeable:
            value = value.copy(order="K")  # pickled as it is, it would arrive read-only, too
            reduced = super().reducer_override(value)
            return value.__reduce_ex__(PROTOCOL) if reduced is NotImplemented else reduced
        return super().reducer_override(value)
