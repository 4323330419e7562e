"""numpy arrays that numpy itself would copy into the pickle: strided ones, and types that export no buffer.

Their bytes leave the pickle as those of other arrays do. An array comes back with its type, shape and order of axes in
memory; gaps between its items are closed. Times whose bytes stand in the other order are taken care of as well: from
numpy's own pickle they come back in this host's order. So is the hard mask of a masked array, which comes back soft
from there. numpy is not imported here: who has an array has it already.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any, Final

SMALLEST_BYTES: Final = 4096  # smaller ones are left to numpy
_FLAT_KINDS: Final = "biufcmMSUV"  # whose items are all that there is to an array: not numpy's StringDType


def reduce_array(array: Any) -> Any:
    """For a pickler: how to make this `numpy.ndarray` again, or NotImplemented when numpy does it well."""
    dtype, contiguous = array.dtype, array.flags.c_contiguous or array.flags.f_contiguous
    if dtype.hasobject or dtype.kind not in _FLAT_KINDS or not dtype.itemsize:
        return NotImplemented
    if dtype.kind not in "MmV" and (contiguous or array.nbytes < SMALLEST_BYTES):
        return NotImplemented
    dense = array if contiguous else array.copy(order="K")
    flat = dense.ravel(order="K").view("u1")
    return restore_array, (pickle.PickleBuffer(flat), dtype, dense.shape, dense.strides)


def restore_array(buffer: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Called while unpickling: an array over the buffer, writable if that is."""
    numpy = sys.modules["numpy"]
    return numpy.ndarray(shape, dtype, buffer, strides=strides)


def reduce_masked(value: Any) -> Any:
    """For a pickler: how to make this array again, if it is a masked one with a hard mask; else NotImplemented."""
    masked = sys.modules.get("numpy.ma")
    if masked is None or not isinstance(value, masked.MaskedArray) or not value.hardmask:
        return NotImplemented
    maker, arguments, state = value.__reduce__()
    return maker, arguments, state, None, None, restore_masked


def restore_masked(array: Any, state: Any) -> None:
    """Called while unpickling: fill in a masked array, whose mask is hard."""
    array.__setstate__(state)
    array.harden_mask()
