"""Plans, carried out by members in any order, against what numpy gives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibernb.collectives import schedule
from fibernb.collectives.arrays import OPERATIONS, Combined
from fibernb.collectives.memory import Blobs, Pieces
from fibernb.collectives.schedule import Deed, Span
from tests.collectives.rings import play

sizes = st.integers(2, 7)
items = st.integers(0, 60)
chunk_items = st.integers(1, 20)
slots = st.integers(2, 5)
seeds = st.integers(0, 2**32)


def values(size: int, count: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """What each member brings."""
    return np.random.default_rng(seed).integers(-9, 9, (size, count))


@given(st.integers(0, 200), st.integers(1, 20))
def test_parts(count: int, parts: int) -> None:
    spans = schedule.parts(count, parts)
    assert [len(part) for part in np.array_split(np.arange(count), parts)] == [stop - start for start, stop in spans]
    assert (spans[0].start, spans[-1].stop) == (0, count)


@given(sizes, items, chunk_items, slots, seeds, st.sampled_from(sorted(OPERATIONS)), st.booleans())
def test_allreduce(size: int, count: int, most: int, room: int, seed: int, op: str, in_place: bool) -> None:
    brought = values(size, count, seed)
    expected = OPERATIONS[op].reduce(brought)
    results = brought if in_place else np.zeros_like(brought)
    memories = [Combined(own, result, OPERATIONS[op]) for own, result in zip(brought, results, strict=True)]
    play(schedule.allreduce(size, count, most), memories, seed=seed, slots=room)
    assert (results == expected).all()


@given(sizes, items, seeds)
def test_allreduce_as_one(size: int, count: int, seed: int) -> None:
    brought = values(size, count, seed)
    results = np.zeros_like(brought)
    memories = [Combined(own, result, np.add) for own, result in zip(brought, results, strict=True)]
    sent = play(schedule.allreduce_as_one(size, count), memories, seed=seed, small=True)
    assert (results == brought.sum(0)).all()
    assert sum(sent) == 2 * (size - 1)


@given(sizes, items, chunk_items, slots, seeds)
def test_reduce_scatter(size: int, count: int, most: int, room: int, seed: int) -> None:
    brought = values(size, count, seed)
    spans = schedule.parts(count, size)
    results = [np.zeros(span.stop - span.start, np.int64) for span in spans]
    memories = [
        Combined(own, result, np.add, span.start) for own, result, span in zip(brought, results, spans, strict=True)
    ]
    play(schedule.reduce_scatter(size, spans, most), memories, seed=seed, slots=room)
    for result, expected in zip(results, np.array_split(brought.sum(0), size), strict=True):
        np.testing.assert_array_equal(result, expected)


@given(st.lists(st.binary(max_size=40), min_size=2, max_size=7), chunk_items, slots, seeds)
def test_allgather(brought: list[bytes], most: int, room: int, seed: int) -> None:
    bounds = np.cumsum([0, *map(len, brought)]).tolist()
    spans = [Span(start, stop) for start, stop in itertools.pairwise(bounds)]
    rooms = [
        [bytearray(own if place == position else len(own)) for place, own in enumerate(brought)]
        for position in range(len(brought))
    ]
    memories = [
        Pieces({place: memoryview(part) for place, part in enumerate(room)}, dict(enumerate(spans))) for room in rooms
    ]
    play(schedule.allgather(len(brought), spans, most), memories, seed=seed, slots=room)
    assert rooms == [brought] * len(brought)


@given(sizes, st.binary(max_size=60), chunk_items, slots, seeds, st.data())
def test_broadcast(size: int, content: bytes, most: int, room: int, seed: int, data: st.DataObject) -> None:
    root = data.draw(st.integers(0, size - 1))
    rooms = [bytearray(content if position == root else len(content)) for position in range(size)]
    memories = [Pieces({root: memoryview(place)}, {root: Span(0, len(content))}) for place in rooms]
    play(schedule.broadcast(size, root, len(content), most), memories, seed=seed, slots=room)
    assert rooms == [content] * size


@given(sizes, seeds)
def test_blobs(size: int, seed: int) -> None:
    memories = [Blobs({position: bytes(position)}) for position in range(size)]
    play(schedule.allreduce_as_one(size, 1), memories, seed=seed, small=True)
    assert all(memory.found == {position: bytes(position) for position in range(size)} for memory in memories)


@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_no_member_sends_more_than_it_must(size: int) -> None:
    count, most = 240 * size, 10
    brought = values(size, count, 0)
    memories = [Combined(own, own, np.add) for own in brought]
    sent = play(schedule.allreduce(size, count, most), memories, seed=0)
    assert sent == [2 * (size - 1) * count // size // most] * size


@given(sizes, st.integers(1, 30), chunk_items)
def test_arrivals(size: int, count: int, most: int) -> None:
    plans = [
        schedule.allreduce(size, count, most),
        schedule.broadcast(size, size - 1, count, most),
        schedule.allgather(size, schedule.parts(count, size), most),
    ]
    for plan in plans:
        assert sum(map(plan.arrivals, range(size))) == len(plan.chunks) * plan.hops
        begun = sorted(number for position in range(size) for number in plan.begins(position))
        assert begun == list(range(len(plan.chunks)))


def test_deeds() -> None:
    plan = schedule.allreduce(3, 9, 9)
    add, last, copy, end = (plan.deed(hops) for hops in (1, 2, 3, 4))
    assert add == Deed(reduce=True, keep=False, forward=True)
    assert last == Deed(reduce=True, keep=True, forward=True)
    assert copy == Deed(reduce=False, keep=True, forward=True)
    assert end == Deed(reduce=False, keep=True, forward=False)
    plan = schedule.reduce_scatter(3, schedule.parts(9, 3), 9)
    assert plan.deed(2) == Deed(reduce=True, keep=True, forward=False)
    alone = schedule.allreduce(1, 9, 9)
    assert (alone.begins(0), alone.arrivals(0)) == ([], 0)
