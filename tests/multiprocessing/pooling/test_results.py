from __future__ import annotations

from typing import Any

import pytest

from fibernb.multiprocessing.pooling.reading import Window
from fibernb.multiprocessing.pooling.results import CallResult, LazyResult, ListResult, UnorderedResult


class FakePool:
    """Holds the results that are not complete."""

    def __init__(self) -> None:
        self._cache: dict[int, Any] = {}
        self.abandoned: list[Any] = []

    def abandon(self, result: Any) -> None:
        self.abandoned.append(result)


@pytest.fixture
def pool() -> FakePool:
    return FakePool()


def test_a_call_has_one_value(pool: FakePool) -> None:
    told: list[Any] = []
    result = CallResult(pool, told.append, None)
    assert pool._cache
    result.settle(0, [5])
    assert result.get() == 5
    assert told == [5]
    assert not pool._cache


def test_the_error_of_a_callback_is_printed(pool: FakePool, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(value: object) -> None:
        raise ValueError(f"not {value}")

    result = CallResult(pool, refuse, None)
    result.settle(0, [5])
    assert result.get() == 5
    assert "ValueError: not 5" in capsys.readouterr().err


def test_a_list_is_filled_in_any_order(pool: FakePool) -> None:
    result = ListResult(pool, 5, None, None, None)
    result.settle(3, [3, 4])
    assert not result.ready()
    result.settle(0, [0, 1, 2])
    assert result.get() == [0, 1, 2, 3, 4]
    assert not pool._cache


def test_chunks_of_a_list_stand_where_they_belong(pool: FakePool) -> None:
    result = ListResult(pool, 5, 2, None, None)
    result.settle(1, [[2, 3], [4]])
    result.settle(0, [[0, 1]])
    assert result.get() == [0, 1, 2, 3, 4]


def test_the_first_error_of_a_list_is_told_when_all_has_been_done(pool: FakePool) -> None:
    told: list[Any] = []
    result = ListResult(pool, 3, None, None, told.append)
    result.fail(2, ValueError("first"))
    result.fail(0, ValueError("second"))
    assert not result.ready()
    result.settle(1, [1])
    with pytest.raises(ValueError, match="first"):
        result.get()
    assert [str(error) for error in told] == ["first"]


def test_an_empty_list_is_there_at_once(pool: FakePool) -> None:
    assert ListResult(pool, 0, None, None, None).get(0) == []
    assert not pool._cache


def test_what_is_given_up_tells_no_callback(pool: FakePool) -> None:
    told: list[Any] = []
    results: list[Any] = [CallResult(pool, None, told.append), ListResult(pool, 3, None, None, told.append)]
    for result in results:
        result.give_up(TimeoutError("over"))
        with pytest.raises(TimeoutError, match="over"):
            result.get()
    assert told == []


def test_what_cannot_be_run_tells_its_callback(pool: FakePool) -> None:
    told: list[Any] = []
    results: list[Any] = [CallResult(pool, None, told.append), ListResult(pool, 3, None, None, told.append)]
    for result in results:
        result.refuse(ValueError("bad"))
        assert result.ready()
    assert len(told) == 2


def test_an_iterator_gives_values_in_order(pool: FakePool) -> None:
    result = LazyResult(pool, Window(100))
    result.settle(1, [1, 2])
    result.settle(0, [0])
    result.end(3)
    assert list(result) == [0, 1, 2]
    assert not pool._cache


def test_an_unordered_iterator_gives_values_as_they_come(pool: FakePool) -> None:
    result = UnorderedResult(pool, Window(100))
    result.settle(1, [1, 2])
    result.settle(0, [0])
    result.end(3)
    assert list(result) == [1, 2, 0]


def test_an_iterator_tells_when_its_window_moves(pool: FakePool) -> None:
    moved: list[float] = []
    result = LazyResult(pool, Window(8))
    result.on_room = lambda: moved.append(result.window.end())
    result.settle(0, range(6))
    for _ in range(5):
        next(result)
    assert moved == [10, 12]


def test_an_iterator_goes_on_after_an_error(pool: FakePool) -> None:
    result = LazyResult(pool, Window(8))
    result.fail(0, ValueError("bad"))
    result.settle(1, [1])
    result.end(2)
    with pytest.raises(ValueError, match="bad"):
        next(result)
    assert list(result) == [1]


def test_an_iterator_that_is_given_up_ends(pool: FakePool) -> None:
    result = LazyResult(pool, Window(8))
    result.settle(0, [0])
    result.give_up(None)
    result.end(5)
    result.fail(3, ValueError("too late"))
    assert list(result) == [0]
    assert not pool._cache


def test_an_interrupt_abandons_an_iteration(pool: FakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    result = LazyResult(pool, Window(8))

    def interrupt(timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(result._cond, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(result)
    assert pool.abandoned == [result]
