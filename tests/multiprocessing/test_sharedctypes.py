"""Values and arrays that processes share."""

from __future__ import annotations

import ctypes
import pickle
from multiprocessing import sharedctypes as library
from typing import Any

import pytest

import fibernb as fnb
import fibernb.multiprocessing as multiprocessing
from fibernb.multiprocessing import sharedctypes
from fibernb.multiprocessing.sharedctypes import Array, RawArray, RawValue, Value, copy, synchronized

pytestmark = pytest.mark.usefixtures("cluster")


class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_double)]


def run(function: Any, *args: Any) -> None:
    process = multiprocessing.Process(target=function, args=args)
    process.start()
    process.join()
    assert process.exitcode == 0


def test_processes_write_what_others_read() -> None:
    number, row, text = Value("i", 5), Array("d", range(4)), Array("c", b"hello")
    matrix, point = RawArray(ctypes.c_int * 3, 2), Value(Point, 1, 2.5)

    def write(number: Any, row: Any, text: Any, matrix: Any, point: Any) -> None:
        with number:
            number.value += 1
        row[1:3] = [7.0, 8.0]
        text.value = b"HELLO"
        matrix[1][2] = 9
        point.x, point.y = 3, point.y * 2

    run(write, number, row, text, matrix, point)
    assert number.value == 6
    assert row[:] == [0.0, 7.0, 8.0, 3.0]
    assert text.value == b"HELLO"
    assert [list(line) for line in matrix] == [[0, 0, 0], [0, 0, 9]]
    assert (point.x, point.y) == (3, 5.0)


def test_a_structure_of_a_notebook() -> None:
    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("many", ctypes.c_int * 2)]

    pairs = Array(Pair, 2)

    def write(pairs: Any) -> None:
        pairs[1].many[1] = 4

    run(write, pairs)
    assert pairs[1].many[1] == 4


def test_no_update_under_the_lock_is_lost() -> None:
    counter = Value("i", 0)

    def count(counter: Any) -> None:
        for _ in range(500):
            with counter.get_lock():
                counter.value += 1

    processes = [multiprocessing.Process(target=count, args=(counter,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert counter.value == 1500


def test_what_tasks_return_is_shared_memory_too() -> None:
    make = fnb.remote(lambda start: [Value("i", start + index) for index in range(3)])
    first, second = fnb.get([make.remote(0), make.remote(10)])
    assert [value.value for value in first + second] == [0, 1, 2, 10, 11, 12]

    def double(values: Any) -> None:
        for value in values:
            value.value *= 2

    fnb.get(fnb.remote(double).remote(first))
    assert [value.value for value in first + second] == [0, 2, 4, 10, 11, 12]


def test_any_pickle_will_do() -> None:
    for value in (RawValue("d", 1.5), RawArray("i", [1, 2]), Value("h", 3), Array(ctypes.c_long * 2, 2)):
        again = pickle.loads(pickle.dumps(value))
        assert type(again) is type(value)
    raw = RawValue("d", 1.5)
    pickle.loads(pickle.dumps(raw)).value = 2.5
    assert raw.value == 2.5


def test_other_objects_of_the_same_type_are_pickled_by_what_they_contain() -> None:
    RawValue(ctypes.c_int, 1)
    plain = ctypes.c_int(5)
    again = pickle.loads(pickle.dumps(plain))
    again.value = 6
    assert plain.value == 5


def test_without_a_lock_and_with_ones_own() -> None:
    lock = multiprocessing.RLock()
    assert Value("i", 1, lock=lock).get_lock() is lock
    assert Array("i", 2, lock=lock).get_lock() is lock
    assert isinstance(Value("i", 1, lock=False), ctypes.c_int)
    assert not hasattr(Array("i", 1, lock=False), "get_lock")
    with pytest.raises(AttributeError, match="has no method 'acquire'"):
        Value("i", 1, lock=7)
    with pytest.raises(AttributeError, match="has no method 'acquire'"):
        Array("i", 1, lock="no")


def test_copies_have_memory_of_their_own() -> None:
    point = RawValue(Point, 1, 2.0)
    other = copy(point)
    point.x = 5
    assert (other.x, other.y) == (1, 2.0)


def test_synchronizing() -> None:
    wrapper = synchronized(RawValue("i", 1))
    assert isinstance(wrapper, library.Synchronized)
    assert isinstance(synchronized(RawArray("c", 3)), library.SynchronizedString)
    assert isinstance(synchronized(RawArray("i", 3)), sharedctypes.SynchronizedArray)
    assert repr(wrapper) == "<Synchronized wrapper for c_int(1)>"
    with pytest.raises(AssertionError, match="already synchronized"):
        synchronized(wrapper)


def test_bad_types() -> None:
    with pytest.raises(TypeError):
        RawValue("no such code")
    with pytest.raises(TypeError):
        RawArray("i", None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be >= 0"):
        RawArray("i", -1)
