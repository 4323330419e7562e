from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from fibernb.client import code as epochs
from fibernb.multiprocessing import reduction
from fibernb.multiprocessing.pooling.codes import Codes, is_plain


def double(x: int) -> int:
    return 2 * x


class Doubler:
    factor = 2

    def double(self, x: int) -> int:
        return self.factor * x

    def __call__(self, x: int) -> int:
        return self.factor * x


PLAIN: list[Callable[..., Any]] = [double, len, time.sleep, int, Doubler, lambda: 1]
OTHERS: list[Callable[..., Any]] = [Doubler(), Doubler().double, "a".join, functools.partial(double, 1)]


def test_plain_functions_have_no_state() -> None:
    assert all(is_plain(function) for function in PLAIN)
    assert not any(is_plain(function) for function in OTHERS)


def test_a_plain_function_has_one_number() -> None:
    codes = Codes()
    assert codes.of(double) == codes.of(double)
    assert codes.of(double).number != codes.of(len).number
    assert reduction.loads(codes.pickle(codes.of(double).number))(3) == 6


def test_anything_else_has_a_number_for_every_job() -> None:
    codes, doubler = Codes(), Doubler()
    first = codes.of(doubler.double)
    doubler.factor = 3
    second = codes.of(doubler.double)
    assert reduction.loads(codes.pickle(first.number))(5) == 10
    assert reduction.loads(codes.pickle(second.number))(5) == 15
    assert first.paces is second.paces is codes.paces_of(doubler.double)


def test_partials_share_the_pace_of_their_function() -> None:
    codes = Codes()
    assert codes.paces_of(functools.partial(double, 1)) is codes.of(double).paces
    assert codes.paces_of(Doubler()) is codes.paces_of(Doubler())


def test_a_forgotten_code_is_empty() -> None:
    codes = Codes()
    number = codes.of(Doubler()).number
    codes.forget(number)
    assert codes.pickle(number) == b""


def test_a_new_epoch_brings_new_code_only_if_it_has_changed() -> None:
    codes = Codes()
    namespace = {"factor": 2, "__name__": "__main__"}
    exec("def times(x): return factor * x", namespace)
    times = namespace["times"]
    first = codes.of(times)  # type: ignore[arg-type]
    namespace["factor"] = 3
    assert codes.of(times) == first, "looked at once an epoch"  # type: ignore[arg-type]
    epochs.next_epoch()
    second = codes.of(times)  # type: ignore[arg-type]
    assert second.number != first.number
    assert reduction.loads(codes.pickle(second.number))(5) == 15
    epochs.next_epoch()
    assert codes.of(times).number == second.number  # type: ignore[arg-type]
