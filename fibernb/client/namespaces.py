"""Sequences cut into parts for ranks, and joined again."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def parts(values: Any, count: int) -> list[Any]:
    """``count`` contiguous parts in order, as equal as can be, the longer ones first.

    Works on whatever has a length and can be sliced; anything else that can be iterated is made a list first. Raises
    TypeError for a mapping, of which that would leave the keys alone.
    """
    if isinstance(values, Mapping):
        raise TypeError("a mapping cannot be cut into parts: scatter a list of its items, or push it to every rank")
    sliceable = values if hasattr(values, "__getitem__") else list(values)
    least, longer = divmod(len(sliceable), count)
    bounds = [index * least + min(index, longer) for index in range(count + 1)]
    return [sliceable[start:end] for start, end in itertools.pairwise(bounds)]


def join(pieces: Sequence[Any]) -> Any:
    """The whole of parts in order: an array when they are arrays, pandas' when they are pandas', otherwise a list."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if numpy is not None and pieces and all(isinstance(piece, numpy.ndarray) and piece.ndim for piece in pieces):
        return numpy.concatenate(pieces)
    if pandas is not None and pieces and all(isinstance(piece, pandas.DataFrame | pandas.Series) for piece in pieces):
        return pandas.concat(pieces)
    return [item for piece in pieces for item in piece]
