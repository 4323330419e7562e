# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Ray's pages on objects: put and get, nesting, shared memory, what can be pickled, who holds what."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import fibernb as ray
from tests.integration.conftest import Place, wait_until


@ray.remote
def echo(value: Any) -> Any:
    return value


@ray.remote
def kind_of(value: Any) -> str:
    return type(value).__name__


def test_put_and_get() -> None:
    ref = ray.put(1)
    assert ray.get(ref) == 1
    assert ray.get([ray.put(number) for number in range(3)]) == [0, 1, 2]


def test_a_put_object_cannot_be_changed() -> None:
    original = [1, 2]
    ref = ray.put(original)
    original.append(3)
    ray.get(ref).append(4)
    assert ray.get(ref) == [1, 2]


def test_put_takes_no_reference() -> None:
    with pytest.raises(TypeError, match="reference"):
        ray.put(ray.put(1))


def test_a_reference_at_the_top_is_its_value_and_a_nested_one_is_not() -> None:
    ref = ray.put(5)
    assert ray.get(kind_of.remote(ref)) == "int"
    assert ray.get(kind_of.remote([ref])) == "list"

    @ray.remote
    def look_inside(values: list[Any]) -> tuple[bool, Any]:
        return isinstance(values[0], ray.ObjectRef), ray.get(values[0])

    assert ray.get(look_inside.remote([ref])) == (True, 5)


def test_objects_inside_of_objects() -> None:
    inner = ray.put("inner")
    outer = ray.put({"inside": [inner]})
    del inner
    assert ray.get(ray.get(outer)["inside"][0]) == "inner"


def test_objects_inside_of_results_live() -> None:
    @ray.remote
    def make() -> list[Any]:
        return [ray.put(np.full(100_000, number)) for number in range(5)]

    references = ray.get(make.remote())
    assert [int(ray.get(reference)[0]) for reference in references] == [0, 1, 2, 3, 4]


def test_closures_capture_references() -> None:
    table = ray.put(np.arange(1000))

    @ray.remote
    def look_up(index: int) -> int:
        return int(ray.get(table)[index])

    assert ray.get([look_up.remote(index) for index in (1, 10, 100)]) == [1, 10, 100]


def test_arrays_are_read_only_and_shared() -> None:
    array = ray.get(ray.put(np.zeros(1_000_000)))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1

    @ray.remote
    def write(values: Any) -> None:
        values[0] = 1

    with pytest.raises(ValueError, match="read-only"):
        ray.get(write.remote(ray.put(np.zeros(1_000_000))))


def test_a_copy_may_be_written() -> None:
    @ray.remote
    def write(values: Any) -> Any:
        values = values.copy()
        values[0] = 1
        return values

    assert ray.get(write.remote(np.zeros(1_000_000)))[0] == 1


def test_getting_a_large_array_again_copies_nothing() -> None:
    ref = ray.put(np.zeros(20_000_000))
    first, second = ray.get(ref), ray.get(ref)
    assert np.shares_memory(first, second)


@pytest.mark.parametrize(
    "value",
    [
        np.asfortranarray(np.arange(60_000).reshape(200, 300)),
        np.arange(120_000)[::3],
        np.array(["2026-01-01", "NaT"] * 20_000, dtype="datetime64[D]"),
        np.zeros(20_000, dtype=[("x", "f8"), ("name", "U8")]),
        np.zeros((0, 5)),
        np.ma.masked_greater(np.arange(50_000), 7),
        np.array([1, "two", None], dtype=object),
    ],
    ids=["fortran", "strided", "datetime", "structured", "empty", "masked", "object"],
)
def test_arrays_are_exact(value: Any) -> None:
    back = ray.get(echo.remote(ray.put(value)))
    assert (back.dtype, back.shape) == (value.dtype, value.shape)
    assert back.flags.f_contiguous == value.flags.f_contiguous or value.flags.c_contiguous is False
    np.testing.assert_array_equal(back, value)


def test_one_object_twice_is_one_object() -> None:
    values = ray.get(ray.put([np.zeros(42)] * 99))
    assert values[0] is values[98]


def test_a_class_that_says_how_it_is_pickled() -> None:
    class Database:
        def __init__(self, path: str) -> None:
            self.path = path
            self.connection = sqlite3.connect(path)

        def __reduce__(self) -> tuple[Any, ...]:
            return Database, (self.path,)

    original = Database(":memory:")
    copy = ray.get(ray.put(original))
    assert copy.path == ":memory:"
    assert copy.connection.execute("select 1").fetchone() == (1,)
    original.connection.close()
    copy.connection.close()


def test_what_cannot_be_pickled_is_named() -> None:
    class Model:
        def __init__(self) -> None:
            self.inner = {"lock": threading.Lock()}

    with pytest.raises(TypeError, match="lock"):
        echo.remote(Model())
    with pytest.raises(TypeError, match="lock"):
        ray.put({"model": Model()})


def test_dropping_the_last_reference_frees_the_memory() -> None:
    ref = ray.put(np.zeros(2_000_000))
    assert any(row["object_size"] > 10_000_000 for row in ray.util.state.list_objects())
    del ref
    wait_until(lambda: not any(row["object_size"] > 10_000_000 for row in ray.util.state.list_objects()))


def test_more_objects_than_memory_in_turn() -> None:
    """Ten times a hundred megabytes, each dropped before the next: the memory is used again."""

    @ray.remote
    def total(array: Any) -> float:
        return float(array[0] + array[-1])

    for number in range(10):
        ref = ray.put(np.full(12_500_000, float(number)))
        assert ray.get(total.remote(ref)) == 2 * number


def test_a_large_value_for_many_tasks_exists_once() -> None:
    @ray.remote
    def where(array: Any) -> tuple[int, float]:
        return int(array.nbytes), float(array[12_345])

    ref = ray.put(np.arange(5_000_000.0))
    assert ray.get([where.remote(ref) for _ in range(20)]) == [(40_000_000, 12_345.0)] * 20
    large = [row for row in ray.util.state.list_objects() if row["object_size"] >= 40_000_000]
    assert len(large) == 1


def store_processes() -> list[psutil.Process]:
    """The processes that keep the objects of this cluster."""
    node = psutil.Process(ray.init().connection.node_pid)
    return [child for child in node.children() if "store" in child.name()]


def test_a_lost_object_is_made_again(tmp_path: Path) -> None:
    """The store is killed: what tasks made is made again, with what that needs; what was put is lost."""
    trace = tmp_path / "trace"
    trace.touch()

    def leave_mark() -> None:
        with trace.open("a") as file:
            file.write("x")

    @ray.remote
    def make() -> Any:
        leave_mark()
        return np.arange(100_000)

    @ray.remote
    def double(array: Any) -> Any:
        leave_mark()
        return 2 * array

    made = double.remote(make.remote())
    put = ray.put(np.arange(100_000))
    ray.wait([made], timeout=20)
    for process in store_processes():
        process.kill()
    wait_until(lambda: not any(process.status() != "zombie" for process in store_processes()))
    assert int(ray.get(made, timeout=30)[-1]) == 199_998
    assert len(trace.read_text()) == 4
    with pytest.raises(ray.exceptions.ObjectLostError, match="put"):
        ray.get(put, timeout=30)


def test_more_than_memory_goes_to_disk(place: Place) -> None:
    done = place.run(
        """
        import numpy as np
        import fibernb as ray

        ray.init(num_cpus=1, store_bytes=64_000_000, spill_bytes=1_000_000_000)
        refs = [ray.put(np.full(2_500_000, number)) for number in range(10)]
        print([int(ray.get(ref)[-1]) for ref in refs])
        """
    )
    assert (done.stdout, done.stderr) == ("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n", "")


def test_a_value_larger_than_everything(place: Place) -> None:
    done = place.run(
        """
        import numpy as np
        import fibernb as ray

        ray.init(num_cpus=1, store_bytes=32_000_000, spill_bytes=32_000_000)
        try:
            ray.put(np.zeros(20_000_000))
        except ray.exceptions.ObjectStoreFullError as error:
            print("full", "160" in str(error))
        """
    )
    assert (done.stdout, done.stderr) == ("full True\n", "")
