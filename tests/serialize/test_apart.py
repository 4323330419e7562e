"""Pickles whose large buffers are still the memory of the value."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from fibernb import serialize
from fibernb.errors import SerializationError
from fibernb.serialize import Apart
from tests.serialize.stores import MemoryStore

VALUES = [
    5,
    "text",
    [1, {"a": (2, None)}],
    b"x" * 50_000,
    np.arange(10_000.0),
    {"a": np.ones(3), "b": [np.zeros(9_999)]},
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_whole_and_packed_are_the_value(value: Any) -> None:
    store = MemoryStore()
    packed = Apart(value).pack(store)
    np.testing.assert_equal(serialize.loads(packed.data, store), value)
    np.testing.assert_equal(serialize.loads(Apart(value).whole()), value)
    assert bool(packed.blocks) == (len(Apart(value).whole()) > store.inline_bytes)
    assert Apart(value).pack(None).blocks == ()


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_equal_contents_have_one_digest(value: Any) -> None:
    assert Apart(value).digest() == Apart(value).digest()
    assert len({Apart(other).digest() for other in VALUES}) == len(VALUES)


def test_what_changed_in_place_has_another() -> None:
    array = np.zeros(100_000)
    before = Apart(array).digest()
    array[50_000] = 1
    assert Apart(array).digest() != before
    array[50_000] = 0
    assert Apart(array).digest() == before
    array.flags.writeable = False
    assert Apart(array).digest() != before


def test_nothing_is_copied_before_it_is_sent() -> None:
    array, store = np.zeros(100_000), MemoryStore()
    apart = Apart(array)
    array[0] = 7
    assert serialize.loads(apart.pack(store).data, store)[0] == 7


def test_what_cannot_be_pickled_is_named() -> None:
    with pytest.raises(SerializationError, match=r"box\['lock'\]: cannot pickle"):
        Apart({"lock": threading.Lock()}, "box")
