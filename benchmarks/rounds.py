"""How long short tasks take, all at once or in rounds. Runs on Python 3.7 too, for Fiber's sake."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.work import nothing, sleep_1_ms, sleep_1_s, sleep_10_ms, sleep_100_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[[int], int]
    Map = Callable[[Function, int], list[int]]  # the function of 0 to n - 1, one task each

FUNCTIONS: dict[str, Function] = {
    function.__name__: function for function in (nothing, sleep_1_ms, sleep_10_ms, sleep_100_ms, sleep_1_s)
}


def expect(values: list[int], count: int) -> None:
    """A benchmark of wrong results is none."""
    if values != list(range(count)):
        raise RuntimeError("a peer returned wrong results")


def seconds_in_rounds(mapped: Map, name: str, count: int, of_a_round: int) -> float:
    """Seconds for ``count`` tasks of the function of that name, ``of_a_round`` at a time, each round waited for."""
    function = FUNCTIONS[name]
    begin = time.perf_counter()
    for _ in range(count // of_a_round):
        expect(mapped(function, of_a_round), of_a_round)
    return time.perf_counter() - begin


def warm_up(mapped: Map, workers: int) -> None:
    """Until every worker has had something to do."""
    for _ in range(3):
        seconds_in_rounds(mapped, "sleep_100_ms", workers, workers)
    seconds_in_rounds(mapped, "nothing", 50, 50)
