"""Arguments with references in them."""

from __future__ import annotations

import bisect
import functools
import threading
from typing import Any

import numpy as np
import pytest

from fibernb import serialize
from fibernb.errors import SerializationError


class Ref:
    def __init__(self, id_: int) -> None:
        self.id = id_


def returned(args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Any]) -> Any:
    data, _ = serialize.dumps_call(args, kwargs, Ref)
    return serialize.loads_call(data, inputs)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1, "a"), {}), (([1], {"x": (2,)}), {"k": None}), ((), {"only": 1}), ((None,), {})]
)
def test_arguments_come_back(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert returned(args, kwargs, []) == (args, kwargs)


def test_references_are_replaced_by_inputs() -> None:
    data, deps = serialize.dumps_call((1, Ref(7), "x", Ref(9)), {"k": Ref(7), "m": 2}, Ref)
    assert deps == (7, 9)
    assert serialize.loads_call(data, ["seven", "nine"]) == ((1, "seven", "x", "nine"), {"k": "seven", "m": 2})


def test_subclasses_of_references_count() -> None:
    class Special(Ref):
        pass

    assert serialize.dumps_call((Special(5),), {}, Ref)[1] == (5,)


def test_a_value_that_looks_like_a_place_is_no_place() -> None:
    assert returned((None, {0: 1}), {}, []) == ((None, {0: 1}), {})


def test_arrays_as_arguments() -> None:
    (args, kwargs) = returned((np.arange(5000),), {"y": np.ones((3, 3), order="F")}, [])
    assert np.array_equal(args[0], np.arange(5000))
    assert kwargs["y"].flags.f_contiguous


@pytest.mark.parametrize(
    ("args", "kwargs", "path"),
    [
        ((0, [threading.Lock()]), {}, "args[1][0]"),
        ((0,), {"k": {"a": threading.Lock()}}, "kwargs['k']['a']"),
        ((Ref(3), threading.Lock()), {}, "args[1]"),
    ],
)
def test_what_cannot_be_pickled_is_named_from_the_arguments(
    args: tuple[Any, ...], kwargs: dict[str, Any], path: str
) -> None:
    with pytest.raises(SerializationError) as caught:
        serialize.dumps_call(args, kwargs, Ref)
    assert str(caught.value).startswith(f"{path}: cannot pickle")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def unnested(value: list[Any]) -> None:
    """Take it apart: to free it at once would take too deep a recursion as well, on some Pythons."""
    while value:
        value = value.pop()


@pytest.mark.parametrize(
    ("args", "kwargs", "path"),
    [
        ((1, [[2]], "deep"), {}, "args[2]"),
        ((1,), {"x": 2, "tree": "deep"}, "kwargs['tree']"),
    ],
)
def test_an_argument_that_is_nested_too_deeply_is_named(
    args: tuple[Any, ...], kwargs: dict[str, Any], path: str
) -> None:
    deep = nested(5000)
    given = tuple(deep if value == "deep" else value for value in args)
    named = {name: deep if value == "deep" else value for name, value in kwargs.items()}
    for dump in (serialize.dumps_call, functools.partial(serialize.pack_call, sink=None)):
        with pytest.raises(SerializationError) as caught:
            dump(given, named, Ref)
        assert str(caught.value) == f"{path}: nested too deeply to be pickled: pass it in parts, or flat"
    unnested(deep)


def told_of(depth: int) -> str:
    """Which argument an error is about when one is nested so deeply; empty if there is none."""
    deep = nested(depth)
    try:
        serialize.dumps_call((deep,), {}, Ref)
    except SerializationError as error:
        return str(error).partition(":")[0]
    finally:
        unnested(deep)
    return ""


def test_at_the_very_limit_the_arguments_are_named_together() -> None:
    limit = bisect.bisect_left(range(100_000), True, key=lambda depth: bool(told_of(depth)))  # Pythons differ in it
    told = {told_of(depth) for depth in range(max(1, limit - 50), limit + 50)} - {""}
    assert told
    assert told <= {"the arguments", "args", "args[0]"}
