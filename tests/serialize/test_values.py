"""Values: exact round trips, one copy a side, the standard pickle for plain ones."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibernb import serialize
from fibernb.errors import SerializationError
from fibernb.serialize.values import is_plain


def returned(value: Any) -> Any:
    return serialize.loads(serialize.dumps(value))


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(plain_values)
def test_plain_values_come_back_equal(value: Any) -> None:
    assert returned(value) == value


@pytest.mark.parametrize("value", [None, 3, 2.5, "x", b"y", True, 1j, (1, "a"), [1, [2, (3,)]], {"a": {"b": 1}}])
def test_plain_values_take_the_standard_pickle(value: object) -> None:
    assert is_plain(value)
    assert serialize.dumps(value) == pickle.dumps(value, 5)


class Int(int):
    pass


@pytest.mark.parametrize("value", [Int(3), (Int(3),), [[[[1]]]], list(range(100)), {(1, 2): Int(3)}, {1}, len])
def test_other_values_do_not(value: object) -> None:
    assert not is_plain(value)


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 2


Pair = collections.namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Point(1),
        Pair(1, [2]),
        {1, 2},
        frozenset("ab"),
        collections.OrderedDict(a=1),
        collections.Counter("aab"),
        collections.deque([1, 2], maxlen=3),
        datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        decimal.Decimal("1.10"),
        range(3),
        slice(1, 2),
        bytearray(b"abc"),
        NotImplemented,
        ...,
        list(range(1000)),
    ],
)
def test_common_values_come_back(value: object) -> None:
    back = returned(value)
    assert back == value
    assert type(back) is type(value)


RECORD = np.dtype([("name", "U5"), ("when", "M8[s]"), ("inner", [("x", "f4"), ("y", "i2", (2, 2))])])
ARRAYS = {
    "floats": np.linspace(0, 1, 5000),
    "fortran": np.asfortranarray(np.arange(6000, dtype="i4").reshape(60, 100)),
    "strided": np.arange(10000)[::2],
    "transposed": np.arange(6000).reshape(20, 300).T,
    "broadcast": np.broadcast_to(np.arange(3.0), (500, 3)),
    "empty": np.empty((0, 7), dtype="f4"),
    "zero-dimensional": np.array(3.5),
    "big-endian": np.arange(1000, dtype=">i8"),
    "complex": np.ones(600, dtype="c16"),
    "half": np.ones(4000, dtype="f2"),
    "bool": np.ones(9000, dtype=bool),
    "text": np.array(["a", "bcd"] * 900),
    "bytes": np.array([b"a", b"bcd"] * 900),
    "datetime": np.arange("2020-01-01", "2029-01-01", dtype="M8[D]"),
    "timedelta": np.arange(1000).astype("m8[ms]"),
    "structured": np.zeros(300, dtype=RECORD),
    "objects": np.array([1, "two", None, [3]] * 300, dtype=object),
    "void": np.zeros(700, dtype="V9"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back_exactly(name: str) -> None:
    array = ARRAYS[name]
    back = returned(array)
    assert type(back) is type(array)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back, array)
    if array.flags.c_contiguous or array.flags.f_contiguous:
        assert back.flags.f_contiguous == array.flags.f_contiguous
        assert back.flags.c_contiguous == array.flags.c_contiguous


@pytest.mark.parametrize("name", [name for name in ARRAYS if name != "broadcast"])
def test_writable_arrays_stay_writable_and_share_nothing(name: str) -> None:
    data = serialize.dumps(ARRAYS[name])
    first, second = serialize.loads(data), serialize.loads(data)
    assert first.flags.writeable
    assert not np.shares_memory(first, second)


def test_read_only_arrays_share_the_blob() -> None:
    array = np.arange(10_000.0)
    array.flags.writeable = False
    data = serialize.dumps(array)
    first, second = serialize.loads(data), serialize.loads(data)
    assert not first.flags.writeable
    assert np.shares_memory(first, second)


def test_masked_arrays_come_back_exactly() -> None:
    array = np.ma.masked_array(np.arange(5000.0), mask=np.arange(5000) % 3 == 0, fill_value=-1)
    back = returned(array)
    assert np.array_equal(back.mask, array.mask)
    assert np.array_equal(back.filled(), array.filled())
    assert back.fill_value == array.fill_value


class Marked(np.ma.MaskedArray):
    """A subclass of a notebook."""


@pytest.mark.parametrize("size", [3, 50_000])
@pytest.mark.parametrize("kind", [np.ma.MaskedArray, Marked])
def test_a_hard_mask_stays_hard(kind: type[Any], size: int) -> None:
    array = np.ma.masked_array(np.arange(float(size)), mask=np.arange(size) % 2 == 1, fill_value=-1, hard_mask=True)
    given = array.view(kind)
    [back, again, soft] = serialize.loads(serialize.dumps([given, given, np.ma.masked_array([1], mask=[True])]))
    assert type(back) is kind
    assert again is back
    assert (back.hardmask, soft.hardmask) == (True, False)
    back[1] = 7.0
    assert back[1] is np.ma.masked
    assert (back.mask == array.mask).all()
    assert (back.data == array.data).all()
    assert back.fill_value == -1


def test_many_buffers_in_one_value() -> None:
    value = {"a": [np.arange(1000 + n) for n in range(20)], "b": (np.ones(3), b"x" * 10_000, bytearray(9000))}
    back = returned(value)
    assert all(np.array_equal(x, y) for x, y in zip(back["a"], value["a"], strict=True))
    assert back["b"][1:] == value["b"][1:]


def test_an_array_twice_in_a_value_is_one_array_afterwards() -> None:
    array = np.arange(5000)
    first, second = returned([array, array])
    assert first is second


def test_buffers_are_copied_once() -> None:
    array = np.ones(1_000_000)
    assert len(serialize.dumps(array)) < array.nbytes + 4096


def test_loading_from_a_memoryview() -> None:
    data = serialize.dumps(np.arange(5000))
    assert np.array_equal(serialize.loads(memoryview(data)), np.arange(5000))


def test_a_value_that_is_pickled_already() -> None:
    assert serialize.dumps(serialize.Pickled(b"anything")) == b"anything"


class BadRepr:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_stand_ins_have_the_repr_of_what_they_stand_for() -> None:
    error = SerializationError("why")
    assert repr(serialize.Unpicklable.of(len, error)) == "<built-in function len>"
    assert "BadRepr" in repr(serialize.Unpicklable.of(BadRepr(), error))
    assert len(repr(serialize.Unpicklable.of("x" * 100_000, error))) < 11_000
    assert repr(returned(serialize.Unpicklable.of(3, error))) == "3"
