"""Runs single cases on one system: ``python -m benchmarks.ray_cases --only actor-sync --system fibernb``.

Prints one line of JSON for each case. `benchmarks.beside_ray` starts this once for each case and system.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from benchmarks import pool_cases
from benchmarks.cases import CASES, LARGE_BYTES, WORKERS, Action, Case, filled

WARM_UP_S: Final = 0.5
TURN_S: Final = 0.5
TURNS: Final = 5
SYSTEMS: Final = ("fibernb", "ray", "multiprocessing")


def rates(action: Action, amount: float) -> list[float]:
    """Units a second of several turns, after a warm-up."""
    _run_for(action, WARM_UP_S)
    return [amount * runs / took for runs, took in (_run_for(action, TURN_S) for _ in range(TURNS))]


def _run_for(action: Action, least_s: float) -> tuple[int, float]:
    """How often the action ran, and the seconds that took; the clock is read seldom beside short actions."""
    begin = time.perf_counter()
    runs, step, took = 0, 1, 0.0
    while took < least_s:
        for _ in range(step):
            action()
        runs += step
        took = time.perf_counter() - begin
        step = max(1, int(runs / max(took, 1e-6) / 50))
    return runs, took


def first_rate(action: Action, amount: float) -> list[float]:
    """Units a second of the very first run."""
    begin = time.perf_counter()
    action()
    return [amount / (time.perf_counter() - begin)]


def copy_speed() -> float:
    """GB/s of numpy's own copy of a large array into memory that was written before."""
    array = filled(LARGE_BYTES)
    target = array.copy()
    return statistics.median(rates(lambda: np.copyto(target, array), LARGE_BYTES / 1e9))


@contextmanager
def cluster(system: str) -> Iterator[Any]:
    """The module of a system, on a new cluster whose workers have run something."""
    api = importlib.import_module(system)
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    api.init(num_cpus=WORKERS, resources={"custom": 100}, **quiet)
    try:
        sleep = api.remote(lambda: time.sleep(0.2))
        api.get([sleep.remote() for _ in range(WORKERS)])
        yield api
    finally:
        api.shutdown()


def measure(case: Case, system: str) -> dict[str, Any] | None:
    """The figures of a case; None where a system has nothing like it."""
    measured = first_rate if case.once else rates
    if system == "multiprocessing":
        if case.name not in pool_cases.PREPARATIONS:
            return None
        with pool_cases.PREPARATIONS[case.name]() as action:
            found = rates(action, case.amount)
    else:
        with cluster(system) as api:
            action = case.prepare(api)
            time.sleep(case.after_s)
            found = measured(action, case.amount)
    figures = {"case": case.name, "system": system, "rate": statistics.median(found), "unit": f"{case.unit}/s"}
    if case.unit == "GB":
        figures["copy"] = copy_speed()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ray_cases", description=__doc__)
    parser.add_argument("--only", choices=[case.name for case in CASES], action="append", help="only this case")
    parser.add_argument("--system", choices=SYSTEMS, default="fibernb")
    options = parser.parse_args()
    for case in CASES:
        if options.only and case.name not in options.only:
            continue
        figures = measure(case, options.system)
        if figures is not None:
            print(json.dumps(figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
