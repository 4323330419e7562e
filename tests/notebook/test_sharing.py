"""Which variables are sent together."""

from __future__ import annotations

import collections
import enum
import math
import threading
from typing import Any

import numpy as np
import pytest

from fibernb.notebook.sharing import groups

LIST: list[int] = [1]
ARRAY = np.zeros(3)


class Color(enum.Enum):
    RED = 1


class Box:
    def __init__(self, content: object) -> None:
        self.content = content


class Slots:
    __slots__ = ("content",)

    def __init__(self, content: object) -> None:
        self.content = content


def counter() -> list[Any]:
    count = 0

    def up() -> None:
        nonlocal count
        count += 1

    def look() -> int:
        return count

    return [up, look]


UP, LOOK = counter()
BOX, SLOTS = Box(1), Slots(1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LIST, LIST),
        (LIST, {"a": (LIST,)}),
        (ARRAY, [ARRAY]),
        (BOX, Box(BOX)),
        (SLOTS, [SLOTS]),
        (Box(LIST), Slots(LIST)),
        (UP, LOOK),
        (collections.deque([LIST]), LIST),
    ],
    ids=str,
)
def test_those_with_an_object_in_common(one: object, other: object) -> None:
    assert groups({"a": one, "b": other, "c": [1]}) == [("a", "b"), ("c",)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1], [1]),
        ("text" * 9, "text" * 9),
        (("a" * 9, 1), ["a" * 9]),
        (np.zeros(3), np.zeros(3)),
        (Box(1), Box(1)),
        (Color.RED, [Color.RED]),
        (Box, Box(1)),
        (math.sqrt, [math.sqrt, counter]),
        (collections, [collections]),
        (counter()[0], counter()[0]),
        (5, None),
    ],
    ids=str,
)
def test_those_without(one: object, other: object) -> None:
    assert groups({"a": one, "b": other}) == [("a",), ("b",)]


def test_what_cannot_be_pickled_goes_alone() -> None:
    assert groups({"a": [threading.Lock()], "b": LIST, "c": LIST}) == [("a",), ("b", "c")]


def test_one_may_join_others() -> None:
    assert groups({"a": LIST, "b": BOX, "c": 1, "d": [BOX, LIST], "e": BOX}) == [("c",), ("a", "b", "d", "e")]
    assert groups({"a": LIST}) == [("a",)]
    assert groups({}) == []
