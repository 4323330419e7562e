"""Values whose buffers stand in the store: exact for every type and layout, and not copied when they are read."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fibernb import serialize
from fibernb.errors import SerializationError
from fibernb.serialize import BlockGone, references
from fibernb.serialize.frames import value_bytes
from tests.serialize.stores import MemoryStore

SMALL = MemoryStore(inline_bytes=0)


def through(value: Any, store: MemoryStore) -> Any:
    packed = serialize.pack(value, "value", store)
    assert len(packed.blocks) == 1
    return serialize.loads(packed.data, store)


def assert_same_array(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted)
    assert found.dtype == wanted.dtype
    assert found.dtype.byteorder == wanted.dtype.byteorder
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    if wanted.flags.c_contiguous or wanted.flags.f_contiguous:
        assert (found.flags.c_contiguous, found.flags.f_contiguous) == (
            wanted.flags.c_contiguous,
            wanted.flags.f_contiguous,
        )


# ---- arrays ---------------------------------------------------------------------------------------------

CUBE = np.arange(60_000.0).reshape(30, 20, 100)
RECORD = np.dtype([("a", "<i4"), ("when", "M8[ns]"), ("b", ">f8", (2,)), ("s", "S5")])
ARRAYS = {
    "C order": CUBE,
    "Fortran order": np.asfortranarray(CUBE),
    "transposed axes": CUBE.transpose(2, 0, 1),
    "strided": CUBE[::2, ::-1, ::3],
    "a column": CUBE.reshape(6000, 10)[:, 3],
    "reversed": np.arange(50_000)[::-1],
    "broadcast": np.broadcast_to(np.arange(100), (200, 100)),
    "big-endian": CUBE.astype(">f4"),
    "half": CUBE.astype("f2"),
    "long double": CUBE.astype("g"),
    "complex": CUBE.astype("c16"),
    "booleans": CUBE > 7,
    "datetimes": np.arange(50_000).astype("M8[us]"),
    "datetimes, strided, big-endian": np.arange(50_000).astype(">M8[D]").reshape(500, 100)[:, ::2],
    "timedeltas in Fortran order": np.asfortranarray(np.arange(50_000).reshape(500, 100).astype("m8[ms]")),
    "text": np.arange(20_000).astype("U7"),
    "bytes": np.arange(20_000).astype("S7"),
    "void": np.frombuffer(b"abcdefg" * 9000, "V7"),
    "records": np.zeros(9000, RECORD),
    "records, strided": np.zeros((90, 100), RECORD)[::3],
    "record array": np.rec.array(np.zeros(9000, RECORD)),
    "masked": np.ma.masked_greater(CUBE, 1000),
    "masked, Fortran order": np.ma.masked_greater(np.asfortranarray(CUBE.reshape(600, 100)), 1000),
    "objects": np.array([{"x": number} for number in range(5000)], dtype=object),
    "objects in Fortran order": np.asfortranarray(np.array([str(n) for n in range(5000)], "O").reshape(50, 100)),
    "strings of variable width": np.array(["x" * (n % 50) for n in range(5000)], np.dtypes.StringDType()),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back_exactly(name: str) -> None:
    wanted = ARRAYS[name]
    assert_same_array(through(wanted, MemoryStore()), wanted)
    assert_same_array(serialize.loads(serialize.dumps(wanted)), wanted)
    if isinstance(wanted, np.ma.MaskedArray):
        found = through(wanted, MemoryStore())
        np.testing.assert_array_equal(found.mask, wanted.mask)
        assert found.fill_value == wanted.fill_value


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_array_in_any_layout(data: st.DataObject) -> None:
    dtype = data.draw(st.one_of(hnp.scalar_dtypes(), hnp.array_dtypes(max_size=3)))
    array = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=8)))
    large = np.resize(array, (*array.shape[:1], 50, *array.shape[1:])) if array.size and array.ndim else array
    laid = data.draw(st.sampled_from([large, np.asfortranarray(large), large.T, large[::-1] if large.ndim else large]))
    for found in (
        serialize.loads(serialize.pack(laid, "v", SMALL).data, SMALL),
        serialize.loads(serialize.dumps(laid)),
    ):
        assert found.dtype == laid.dtype
        assert found.shape == laid.shape
        assert found.tobytes() == laid.tobytes() or dtype.hasobject
        assert not (laid.flags.f_contiguous and not found.flags.f_contiguous)
        assert not (laid.flags.c_contiguous and not found.flags.c_contiguous)


def test_arrays_in_the_store_are_read_in_place_and_cannot_be_changed() -> None:
    store = MemoryStore()
    for wanted in (CUBE, CUBE.transpose(2, 0, 1), CUBE[::2], ARRAYS["datetimes"], ARRAYS["records"]):
        packed = serialize.pack(wanted, "v", store)
        assert len(packed.data) < 1000
        found, again = (serialize.loads(packed.data, store) for _ in range(2))
        assert found.__array_interface__["data"][0] == again.__array_interface__["data"][0]
        assert found.__array_interface__["data"][0] % 16 == 0
        assert not found.flags.writeable


def test_inline_arrays_that_were_writable_are_so_again() -> None:
    for wanted in (CUBE, CUBE[::2], ARRAYS["datetimes"]):
        assert serialize.loads(serialize.dumps(wanted)).flags.writeable
    fixed = np.arange(5000)
    fixed.flags.writeable = False
    assert not serialize.loads(serialize.dumps(fixed)).flags.writeable


# ---- other values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        b"x" * 20_000,
        bytearray(b"y" * 20_000),
        "é\ud800" * 20_000,
        list(range(20_000)),
        {"a": b"z" * 30_000},
        (b"small", b"z" * 30_000, None),
        {"arrays": [np.arange(3000), np.ones((50, 50))], "text": "t" * 50_000},
    ],
    ids=lambda value: type(value).__name__,
)
def test_large_values_of_all_kinds_go_to_the_store(value: Any) -> None:
    store = MemoryStore()
    packed = serialize.pack(value, "value", store)
    assert len(packed.data) < 11_000
    found = serialize.loads(packed.data, store)
    assert type(found) is type(value)
    np.testing.assert_equal(found, value)


@pytest.mark.parametrize("value", [1, b"x" * 9000, np.arange(1000), [np.ones(5), "a"], None])
def test_small_values_stay_inline(value: Any) -> None:
    store = MemoryStore()
    packed = serialize.pack(value, "value", store)
    assert packed.blocks == ()
    assert not store.blocks
    np.testing.assert_equal(serialize.loads(packed.data, store), value)
    assert packed.data == serialize.pack(value).data == serialize.dumps(value)


def test_without_a_store_everything_is_inline() -> None:
    for value in (b"x" * 20_000, CUBE, list(range(20_000))):
        packed = serialize.pack(value)
        assert packed.blocks == ()
        np.testing.assert_equal(serialize.loads(packed.data), value)


def test_what_was_pickled_already_stays_as_it_is() -> None:
    data = serialize.dumps(3)
    assert serialize.pack(serialize.Pickled(data), "v", MemoryStore()).data == data


def test_pandas_frames() -> None:
    frame = pd.DataFrame(
        {
            "a": np.arange(5000),
            "b": np.linspace(0, 1, 5000),
            "when": pd.date_range("2026-01-01", periods=5000, tz="UTC"),
            "text": [f"x{n}" for n in range(5000)],
            "kind": pd.Categorical(["u", "v"] * 2500),
            "gaps": pd.array([1, None] * 2500, dtype="Int64"),
        }
    ).set_index("a")
    pd.testing.assert_frame_equal(through(frame, MemoryStore()), frame)
    pd.testing.assert_frame_equal(serialize.loads(serialize.dumps(frame)), frame)
    series = pd.Series(np.arange(5000.0), name="s")
    pd.testing.assert_series_equal(through(series, MemoryStore()), series)


def test_arrow_tables() -> None:
    table = pa.table({"a": list(range(5000)), "s": ["text"] * 5000, "l": [[1, None]] * 5000})
    store = MemoryStore()
    assert through(table, store).equals(table)
    assert through(pa.array(np.arange(5000)), store).equals(pa.array(np.arange(5000)))


class Storage:
    """Reduces itself as the storage of a tensor of torch does: to one bytes object with all that it has."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def __reduce__(self) -> tuple[Any, ...]:
        return load_storage, (pickle.dumps(self.values),)


class Tensor:
    """Reduces itself as a tensor of torch does: to its storage, and how it looks at that."""

    def __init__(self, storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.storage, self.view = storage, (offset, shape, strides)

    def __reduce_ex__(self, _: object) -> tuple[Any, ...]:
        return Tensor, (self.storage, *self.view)


def load_storage(data: bytes) -> Storage:
    assert type(data) is bytes
    return Storage(pickle.loads(data))


def test_values_that_pickle_themselves_to_bytes_as_tensors_of_torch_do() -> None:
    storage = Storage([float(number) for number in range(50_000)])
    store = MemoryStore()
    first, second = through([Tensor(storage, 0, (100, 500), (1, 100)), Tensor(storage, 7, (3,), (1,))], store)
    assert sum(map(len, store.blocks.values())) > 400_000
    assert first.storage is second.storage
    assert first.storage.values == storage.values
    assert (first.view, second.view) == ((0, (100, 500), (1, 100)), (7, (3,), (1,)))


# ---- errors, references, calls --------------------------------------------------------------------------


def test_a_block_that_is_gone_names_itself() -> None:
    store = MemoryStore()
    packed = serialize.pack(CUBE, "v", store)
    store.blocks.clear()
    with pytest.raises(BlockGone, match=hex(packed.blocks[0])) as caught:
        serialize.loads(packed.data, store)
    assert caught.value.blocks == list(packed.blocks)


def test_without_a_link_to_the_store_it_says_so() -> None:
    packed = serialize.pack(CUBE, "v", MemoryStore())
    with pytest.raises(SerializationError, match="stands in the object store"):
        serialize.loads(packed.data)


def test_what_cannot_be_pickled_names_its_path() -> None:
    with pytest.raises(SerializationError, match=r"^value\[1\]"):
        serialize.pack([CUBE, threading.Lock()], "value", MemoryStore())


class Reference:
    def __init__(self, id_: int) -> None:
        self.id = id_
        self.counted: bool | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        self.counted = references.note(self.id)
        return Reference, (self.id,)


def test_references_inside_of_a_value_are_noted() -> None:
    inner = [Reference(3), Reference(5), Reference(3)]
    assert serialize.pack({"x": inner}).refs == (3, 5)
    assert serialize.pack((inner, CUBE), "v", MemoryStore()).refs == (3, 5)
    assert serialize.pack((inner, CUBE)).refs == (3, 5)
    assert inner[0].counted
    assert serialize.pack([1, 2]).refs == ()
    pickle.dumps(inner)
    assert not inner[0].counted


def test_packing_inside_of_packing_keeps_to_itself() -> None:
    class Nested:
        def __reduce__(self) -> tuple[Any, ...]:
            assert serialize.pack([Reference(9)]).refs == (9,)
            return list, ([Reference(4)],)

    assert serialize.pack([Reference(1), Nested(), Reference(2)]).refs == (1, 4, 2)


def test_calls() -> None:
    store = MemoryStore()
    packed, deps = serialize.pack_call((Reference(7), CUBE, [Reference(8)]), {"k": Reference(7)}, Reference, store)
    assert deps == (7,)
    assert packed.refs == (8,)
    assert len(packed.blocks) == 1
    args, kwargs = serialize.loads_call(packed.data, ["seven"], store)
    assert (args[0], kwargs) == ("seven", {"k": "seven"})
    np.testing.assert_array_equal(args[1], CUBE)
    packed, deps = serialize.pack_call((1, "a"), {}, Reference, store)
    assert (packed.blocks, deps) == ((), ())
    assert packed.data == serialize.dumps_call((1, "a"), {}, Reference)[0]
    packed, _ = serialize.pack_call((b"x" * 20_000,), {}, Reference, store)
    assert len(packed.blocks) == 1
    assert serialize.loads_call(packed.data, [], store) == ((b"x" * 20_000,), {})
    with pytest.raises(SerializationError, match=r"^args\[1\]"):
        serialize.pack_call((1, threading.Lock()), {}, Reference, store)


def test_how_large_a_value_is() -> None:
    for value in (CUBE, [CUBE, CUBE[:3]], b"x" * 20_000, "a"):
        data = serialize.pack(value, "v", MemoryStore()).data
        assert value_bytes(data) == pytest.approx(len(serialize.dumps(value)), abs=200)
