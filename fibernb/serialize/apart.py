"""Pickles whose large buffers are still the memory of the value: to look at, and to copy only if need be."""

from __future__ import annotations

import hashlib
import pickle

from fibernb.model import Digest
from fibernb.serialize.culprit import explain
from fibernb.serialize.frames import frame
from fibernb.serialize.functions import DIGEST_BYTES
from fibernb.serialize.pickling import PROTOCOL, Pickler
from fibernb.serialize.stores import Sink
from fibernb.serialize.values import Packed, dumps_apart, is_plain, packed_apart


class Apart:
    """A value that is pickled, all but its large buffers. To be used up before the value changes.

    Parameters
    ----------
    name : the beginning of the path to what cannot be pickled, in the `SerializationError` that is raised then.
    pickler : the one to use.
    """

    def __init__(self, value: object, name: str = "value", pickler: type[Pickler] = Pickler) -> None:
        self._buffers: list[memoryview] = []
        if is_plain(value):
            self._pickled = memoryview(pickle.dumps(value, PROTOCOL))
            return
        try:
            self._pickled, self._buffers = dumps_apart(value, pickler)
        except Exception as error:
            raise explain(value, name, error) from error

    def digest(self) -> Digest:
        """Sixteen bytes that tell two contents apart."""
        summed = hashlib.sha256(self._pickled)  # which processors have instructions for
        for view in self._buffers:
            summed.update(b"%d %d" % (view.nbytes, view.readonly))
            summed.update(view)
        return summed.digest()[:DIGEST_BYTES]

    def whole(self) -> bytes:
        """All in one blob, as `fibernb.serialize.dumps` gives it."""
        return frame(self._pickled, self._buffers) if self._buffers else bytes(self._pickled)

    def pack(self, sink: Sink | None) -> Packed:
        """As `fibernb.serialize.pack`, except that references in it are not told. Raises `StoreFull`."""
        return packed_apart(self._pickled, self._buffers, (), sink)
