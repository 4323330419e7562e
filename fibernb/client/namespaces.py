"""Sequences cut into parts for ranks, and joined again."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any


def parts(values: Any, count: int) -> list[Any]:
    """``count`` contiguous parts in order, as equal as can be, the longer ones first.

    Works on whatever has a length and can be sliced; anything else that can be iterated is made a list first.
    """
    sliceable = values if hasattr(values, "__getitem__") and not isinstance(values, dict) else list(values)
    least, longer = divmod(len(sliceable), count)
    bounds = [index * least + min(index, longer) for index in range(count + 1)]
    return [sliceable[start:end] for start, end in itertools.pairwise(bounds)]


def join(pieces: Sequence[Any]) -> Any:
    """The whole of parts in order: an array when they are arrays, otherwise a list."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and pieces and all(isinstance(piece, numpy.ndarray) and piece.ndim for piece in pieces):
        return numpy.concatenate(pieces)
    return [item for piece in pieces for item in piece]
