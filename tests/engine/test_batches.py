"""How values and exceptions become results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fibernb import serialize
from fibernb.engine.batches import Batch, failing, failure, stopped
from fibernb.errors import SerializationError
from fibernb.model import BlockId, Call, Outcome, Result, TaskOptions
from fibernb.serialize import BlockGone
from tests.engine.fakehub import NotThere

LARGE = bytes(200_000)


class FakeStore:
    """Keeps blocks in a dictionary."""

    inline_bytes = 100_000

    def __init__(self) -> None:
        self.blocks: dict[BlockId, bytes] = {}
        self.abandoned: list[BlockId] = []

    def write(self, buffers: Sequence[memoryview]) -> tuple[BlockId, list[int]]:
        offsets, data = [], b""
        for view in buffers:
            data += bytes(-len(data) % 64)
            offsets.append(len(data))
            data += view
        block = len(self.blocks) + 1
        self.blocks[block] = data
        return block, offsets

    def map(self, block: BlockId) -> memoryview:
        if block not in self.blocks:
            raise BlockGone([block])
        return memoryview(self.blocks[block])

    def abandon(self, blocks: Sequence[BlockId]) -> None:
        self.abandoned += blocks


def batch(store: FakeStore | None = None, inputs: dict[int, bytes] | None = None, **options: Any) -> Batch:
    return Batch(lambda: None, TaskOptions(name="f", **options), inputs or {}, store)


def test_small_values_stay_in_the_result_and_large_ones_go_to_the_store() -> None:
    store = FakeStore()
    assert batch(store).result(1, [1, 2]).blocks == ()
    result = batch(store).result(1, LARGE)
    assert result.blocks == (1,)
    assert len(result.value) < 1000
    assert serialize.loads(result.value, store) == LARGE
    assert batch(store).result(2, ["x" * 60_000, "y" * 60_000]).blocks == (2,)
    assert batch().result(3, LARGE).blocks == ()


def test_several_values_are_results_of_their_own() -> None:
    store = FakeStore()
    result = batch(store, num_returns=3).result(10, (1, LARGE, [2]))
    assert [part.id for part in (result, *result.more)] == [10, 11, 12]
    assert [part.blocks for part in (result, *result.more)] == [(), (1,), ()]
    assert [serialize.loads(part.value, store) for part in (result, *result.more)] == [1, LARGE, [2]]


def test_what_was_written_for_a_result_that_failed_is_abandoned() -> None:
    store = FakeStore()
    with pytest.raises(SerializationError, match=r"result of f\[1\]"):
        batch(store, num_returns=2).result(10, (LARGE, (i for i in "ab")))
    assert store.abandoned == [1]


def endless() -> Iterator[int]:
    while True:
        yield 1


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (5, "one value (a int)"),
        ("ab", "one value (a str)"),
        ({1: 2, 3: 4}, "one value (a dict)"),
        ((1, 2, 3), "3 values"),
        ([1], "1 values"),
        (endless(), "more than 2 values"),
        (iter([1]), "1 values"),
    ],
)
def test_a_wrong_number_of_values_names_the_mistake_and_the_fix(value: object, found: str) -> None:
    with pytest.raises(ValueError, match="return a tuple of 2, or change num_returns") as caught:
        batch(num_returns=2).result(1, value)
    assert f"f returned {found}, but num_returns=2" in str(caught.value)


def test_inputs_come_from_the_store_or_are_lost() -> None:
    store = FakeStore()
    stored = batch(store).result(7, LARGE)
    packed = serialize.dumps_call((Reference(7),), {}, Reference)
    call = Call(1, *packed)
    assert batch(store, {7: stored.value}).arguments(call) == ((LARGE,), {})
    store.blocks.clear()
    with pytest.raises(BlockGone) as caught:
        batch(store, {7: stored.value}).arguments(call)
    assert batch().failure(1, caught.value) == Result(1, b"", Outcome.LOST, (), (1,))


class Reference:
    def __init__(self, id_: int) -> None:
        self.id = id_


def test_arguments_may_stand_in_the_store_themselves() -> None:
    store = FakeStore()
    packed, deps = serialize.pack_call((LARGE,), {}, NotThere, store)
    assert packed.blocks == (1,)
    assert batch(store).arguments(Call(1, packed.data, deps)) == ((LARGE,), {})


@pytest.mark.parametrize(
    ("named", "error", "outcome"),
    [
        (False, ValueError(), Outcome.ERROR),
        (True, ValueError(), Outcome.RETRY),
        (True, SystemExit(), Outcome.ERROR),
        (serialize.dumps((KeyError, OSError)), FileNotFoundError(), Outcome.RETRY),
        (serialize.dumps((KeyError, OSError)), ValueError(), Outcome.ERROR),
    ],
)
def test_exceptions_that_the_options_name_are_tried_again(
    named: bool | bytes, error: BaseException, outcome: Outcome
) -> None:
    result = batch(retry_exceptions=named).failure(1, error)
    assert result.outcome is outcome
    assert type(serialize.loads_error(result.value)) is type(error)


def test_exceptions_that_cannot_be_read_are_not_tried_again_and_say_why() -> None:
    result = batch(retry_exceptions=b"\x80\x05cno_such_module\nname\n.").failure(1, ValueError("told"))
    assert result.outcome is Outcome.ERROR
    assert "retry_exceptions could not be read" in serialize.loads_error(result.value).__notes__[0]


def test_what_was_interrupted_is_not_tried_again() -> None:
    assert batch(retry_exceptions=True).failure(1, KeyboardInterrupt(), True).outcome is Outcome.CANCELLED
    assert stopped(1).outcome is Outcome.CANCELLED
    assert failure(1, ValueError()).outcome is Outcome.ERROR


def test_a_generator_as_a_value_is_told_what_to_do() -> None:
    with pytest.raises(SerializationError) as caught:
        batch().result(1, endless())
    error = serialize.loads_error(batch().failure(1, caught.value).value)
    assert 'num_returns="streaming"' in error.__notes__[0]
    unsent = SerializationError("'g' could not be sent from the notebook: g: cannot pickle 'generator' object")
    assert not hasattr(serialize.loads_error(batch().failure(1, unsent).value), "__notes__")


def test_a_failing_function_fails_every_call() -> None:
    fail = failing(KeyError("x"), "while loading")
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            fail(1, a=2)
        assert caught.value.__notes__ == ["while loading"]
