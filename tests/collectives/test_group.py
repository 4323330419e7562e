"""The collectives, between threads."""

from __future__ import annotations

import collections
import operator
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fibernb.collectives.group import Group
from fibernb.errors import ConfigError, RingBroken
from tests.collectives.rings import ring_of_threads

LARGE = 300_000  # items: several chunks for each member
Point = collections.namedtuple("Point", "x y")


def same_on_all(results: list[Any]) -> Any:
    for result in results[1:]:
        np.testing.assert_equal(result, results[0])
    return results[0]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_everything_in_turn(size: int) -> None:
    def work(group: Group) -> list[Any]:
        rank = group.rank
        group.barrier()
        own = np.arange(LARGE, dtype=np.float32) * (rank + 1)
        mixed = group.allgather(np.full((rank, 50_000), rank, np.int16))
        return [
            group.allreduce(own),
            group.allreduce(own[:5], "max"),
            group.broadcast({"from": rank}, root=size - 1),
            group.broadcast(own if rank == 0 else None)[:9],
            group.allgather(("a", rank)),
            [piece.shape for piece in mixed],
            group.allreduce(rank + 1),
            group.allgather(b"x" * 100_000 * (rank + 1)),
        ]

    with ring_of_threads(size) as ring:
        results = same_on_all(ring.run(work))
    total = size * (size + 1) // 2
    np.testing.assert_allclose(results[0], np.arange(LARGE, dtype=np.float32) * total)
    np.testing.assert_array_equal(results[1], np.arange(5) * size)
    assert results[2] == {"from": size - 1}
    np.testing.assert_array_equal(results[3], np.arange(9))
    assert results[4] == [("a", rank) for rank in range(size)]
    assert results[5] == [(rank, 50_000) for rank in range(size)]
    assert results[6] == total
    assert list(map(len, results[7])) == [100_000 * (rank + 1) for rank in range(size)]


@settings(max_examples=15)
@given(
    st.integers(1, 4),
    st.sampled_from(["sum", "mean", "prod", "max", "min"]),
    st.sampled_from(["f4", "f8", "i4", "u1", "c16", "?"]),
    st.sampled_from([(), (0,), (3,), (70_000,), (129, 513)]),
)
def test_allreduce_as_numpy_has_it(size: int, op: str, dtype: str, shape: tuple[int, ...]) -> None:
    if dtype == "c16" and op in ("max", "min"):
        return
    brought = [np.random.default_rng(rank).integers(0, 4, shape).astype(dtype) for rank in range(size)]
    with ring_of_threads(size) as ring:
        found = same_on_all(ring.run(lambda group: group.allreduce(brought[group.rank], op)))
    expected = getattr(np, op)(
        np.stack(brought), axis=0, **({"dtype": dtype} if dtype in ("u1", "i4") and op in ("sum", "prod") else {})
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == expected.dtype
    assert found.shape == shape


@pytest.mark.parametrize("shape", [(7,), (2, 3), (9, 40_000)])
def test_reduce_scatter(shape: tuple[int, ...]) -> None:
    brought = [np.random.default_rng(rank).random(shape) for rank in range(3)]
    with ring_of_threads(3) as ring:
        found = ring.run(lambda group: group.reduce_scatter(brought[group.rank], "mean"))
    for part, expected in zip(found, np.array_split(np.mean(brought, axis=0), 3), strict=True):
        np.testing.assert_allclose(part, expected)


@pytest.mark.parametrize("count", [5, LARGE])
def test_out(count: int) -> None:
    def work(group: Group) -> list[Any]:
        own = np.ones(count)
        assert group.allreduce(own, out=own) is own
        spread = np.zeros((count, 2))[:, 0]
        assert group.allreduce(own, "max", out=spread) is spread
        part = np.zeros(group.reduce_scatter(own).shape)
        assert group.reduce_scatter(own, out=part) is part
        assert (part == 4).all()
        return [own, spread.copy(), group.allreduce(np.ones((4, count)).T[::2], "sum")]

    with ring_of_threads(2) as ring:
        own, spread, strided = same_on_all(ring.run(work))
    assert (own == 2).all()
    assert (spread == 2).all()
    assert strided.shape == (-(-count // 2), 4)
    assert (strided == 2).all()


def test_other_values() -> None:
    def work(group: Group) -> list[Any]:
        rank = group.rank
        return [
            group.allreduce(2**70 + rank),
            group.allreduce(rank, "mean"),
            group.allreduce(True),
            group.allreduce({"w": np.full(3, rank), "b": [rank, 1.5]}),
            group.allreduce(Point(rank, 1), "max"),
            group.allreduce({rank}, operator.or_),
            group.allreduce([rank], lambda left, right: left + right),
            group.allreduce(np.array([rank > 0, True]), np.logical_and),
            group.allreduce(np.float32(0.5)),
            group.broadcast([rank], root=1),
        ]

    with ring_of_threads(3) as ring:
        found = same_on_all(ring.run(work))
    assert found[:3] == [3 * 2**70 + 3, 1.0, 3]
    np.testing.assert_array_equal(found[3]["w"], [3, 3, 3])
    assert found[3]["b"] == [3, 4.5]
    assert found[4] == Point(2, 1)
    assert found[5:7] == [{0, 1, 2}, [0, 1, 2]]
    assert found[7].tolist() == [False, True]
    assert (found[8], type(found[8])) == (1.5, np.float32)
    assert found[9] == [1]


def test_results_are_copies() -> None:
    with ring_of_threads(2) as ring:
        brought = [np.zeros(3), np.zeros(3)]
        found = ring.run(lambda group: group.allgather(brought[group.rank]))
    found[0][0][:] = 7
    assert not brought[0].any()
    assert not found[1][0].any()


def test_what_cannot_be_is_told_and_breaks_nothing() -> None:
    def work(group: Group) -> Any:
        ones = np.ones(4)
        cases: list[tuple[Any, type[Exception]]] = [
            (lambda: group.allreduce(ones, "median"), ValueError),
            (lambda: group.allreduce(3, "median"), ValueError),
            (lambda: group.allreduce(ones, np.sin), ValueError),
            (lambda: group.allreduce(ones, np.less), TypeError),
            (lambda: group.allreduce(np.array([object()])), TypeError),
            (lambda: group.allreduce(ones, out=np.ones(3)), ValueError),
            (lambda: group.allreduce(ones, out=np.broadcast_to(1.0, 4)), ValueError),
            (lambda: group.reduce_scatter(np.float64(1)), ValueError),
            (lambda: group.broadcast(1, root=2), ConfigError),
        ]
        for wrong, error in cases:
            with pytest.raises(error):
                wrong()
        return group.allreduce(1)

    with ring_of_threads(1) as ring:
        assert ring.run(work) == [1]


# ---- broken rings --------------------------------------------------------------------------------------------


def broken(results: list[Any], rank: int, reason: str, *, but: int | None = None) -> None:
    """All members (but one) have been told that this one is the cause."""
    for position, result in enumerate(results):
        if position != but:
            assert isinstance(result, RingBroken), result
            assert result.rank == rank
            assert reason in result.reason


@pytest.mark.parametrize("position", range(4))
def test_a_member_that_never_comes(position: int) -> None:
    with ring_of_threads(4) as ring:
        ring.fates.note(position, "has failed")
        broken(ring.run(Group.barrier, without=[position]), position, "has failed", but=position)


@pytest.mark.parametrize("position", range(3))
def test_a_member_that_leaves(position: int) -> None:
    def work(group: Group) -> None:
        group.barrier()
        if group.rank == position:
            group.close("has ended")
        group.allreduce(np.ones(LARGE))

    with ring_of_threads(3) as ring:
        broken(ring.run(work), position, "has ended")


def test_a_member_that_has_given_its_part_may_leave() -> None:
    def work(group: Group) -> Any:
        group.barrier()
        if group.rank == 1:
            gate.wait(60)
        value = group.broadcast("x", root=0)
        if group.rank == 0:
            group.close("has ended")
            ring.fates.note(0, "has ended")
            gate.set()
        return value

    gate = threading.Event()
    with ring_of_threads(3) as ring:
        assert ring.run(work) == ["x"] * 3


def test_different_calls() -> None:
    def work(group: Group) -> Any:
        return group.barrier() if group.rank == 1 else group.allreduce(np.ones(3))

    with ring_of_threads(3) as ring:
        results = ring.run(work)
        assert all(isinstance(result, RingBroken) and "barrier" in result.reason for result in results)
        assert all(isinstance(result, RingBroken) for result in ring.run(Group.barrier))


@pytest.mark.parametrize("count", [3, LARGE])
def test_different_shapes(count: int) -> None:
    with ring_of_threads(2) as ring:
        results = ring.run(lambda group: group.allreduce(np.ones(count + group.rank)))
    assert all(isinstance(result, RingBroken) and f"({count},)" in result.reason for result in results)


def test_an_exception_within_breaks_the_ring_for_all() -> None:
    def combine(left: Any, right: Any, out: Any = None) -> Any:
        raise KeyError("mine")

    def work(group: Group) -> Any:
        circle = group._circle
        assert circle is not None
        from fibernb.collectives import schedule
        from fibernb.collectives.arrays import Combined

        function: Any = combine if group.rank == 1 else np.add
        memory = Combined(np.ones(4), np.ones(4), function)
        circle.run("allreduce", schedule.allreduce_as_one(3, 4), memory, small=True)

    with ring_of_threads(3) as ring:
        results = ring.run(work)
        assert isinstance(results[1], KeyError)
        broken(results, 1, "was stopped in allreduce by KeyError", but=1)


def test_what_it_says() -> None:
    error = RingBroken(3, "has died", "barrier")
    assert str(error) == "barrier cannot be completed: rank 3 has died"
    assert str(RingBroken(3, "has died")) == "rank 3 has died"
