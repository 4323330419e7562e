"""Fiber's pool, measured by its own Python: ``fiber_pool 5`` is a pool of five.

Every line of input is a JSON list, the arguments of `seconds_in_rounds`; every line of output the seconds it took.
Runs on Python 3.7, the last that Fiber 0.2.1 works on.
"""

from __future__ import annotations

import functools
import json
import sys
from typing import TYPE_CHECKING, Any

import fiber

from benchmarks.rounds import seconds_in_rounds, warm_up

if TYPE_CHECKING:
    from benchmarks.rounds import Function


def mapped(pool: Any, function: Function, count: int) -> list[int]:
    return list(pool.map(function, range(count), chunksize=1))


def main() -> None:
    workers = int(sys.argv[1])
    pool = fiber.Pool(workers)
    by_pool = functools.partial(mapped, pool)
    warm_up(by_pool, workers)
    print("ready", flush=True)
    for line in sys.stdin:
        print(seconds_in_rounds(by_pool, *json.loads(line)), flush=True)
    pool.terminate()
    pool.join()


if __name__ == "__main__":
    main()
