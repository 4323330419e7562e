"""The cases of Ray's microbenchmark for FiberNB, Ray and `multiprocessing`, one process after the other."""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from benchmarks.cases import CASES, Case
from benchmarks.report import Check, Table, number

OURS: Final = "fibernb"
RAY: Final = "ray"
POOL: Final = "multiprocessing"
TIMEOUT_S: Final = 300
TRIES: Final = 3  # of a peer, which may crash
COPY_SHARE: Final = 0.8  # of numpy's own copy, that a hot put is to reach
GET_S: Final = 0.0005  # that a get of a large array may take

Figures: TypeAlias = dict[str, Any]  # what `benchmarks.ray_cases` prints of a case
Rates: TypeAlias = dict[str, dict[str, float]]  # units a second by case, then by system; "copy" is numpy's


def figures_of(case: Case, system: str) -> Figures | None:
    """The figures of one case on one system, from a process of its own; None where it has nothing of the kind, or
    has crashed every time. That FiberNB fails is an error.
    """
    command = [sys.executable, "-m", "benchmarks.ray_cases", "--only", case.name, "--system", system]
    for _ in range(1 if system == OURS else TRIES):
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if not done.returncode:
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            return json.loads(lines[-1]) if lines else None
        print(f"case {case.name} failed on {system}:\n{done.stderr[-2000:]}", file=sys.stderr, flush=True)
    if system == OURS:
        raise RuntimeError(f"case {case.name} failed on {system}")
    return None


def measure(cases: Sequence[Case], systems: Sequence[str], repeats: int) -> Rates:
    """Medians over the repetitions; the systems take turns, and never live at the same time."""
    rates: Rates = {}
    for case in cases:
        print(f"measuring: {case.name}", file=sys.stderr, flush=True)
        found: dict[str, list[float]] = {}
        for _ in range(repeats):
            for system in systems:
                figures = figures_of(case, system)
                if figures is not None:
                    found.setdefault(system, []).append(figures["rate"])
                if figures is not None and system == OURS and "copy" in figures:
                    found.setdefault("copy", []).append(figures["copy"])
        rates[case.name] = {system: statistics.median(values) for system, values in found.items()}
    return rates


def checks(cases: Sequence[Case], rates: Rates) -> list[Check]:
    """FiberNB against Ray, case by case, and what a put and a get are held to without it."""
    put, get = rates.get("put-large"), rates.get("get-large")
    found = [
        Check(
            what=f"{case.title}: {case.unit}/s against Ray",
            figure=rates[case.name][OURS] / rates[case.name][RAY],
            unit="times",
            bound=case.bound,
            sense="at least",
        )
        for case in cases
        if RAY in rates[case.name]
    ]
    if put:
        found.append(
            Check(
                what="put of a large array, again and again: GB/s against numpy's own copy",
                figure=put[OURS] / put["copy"],
                unit="times",
                bound=COPY_SHARE,
                sense="at least",
            )
        )
    if get:
        found.append(
            Check(
                what="get of a large array on the same host",
                figure=1e3 / get[OURS],
                unit="ms",
                bound=1e3 * GET_S,
                sense="at most",
            )
        )
    return found


def row(case: Case, rates: Mapping[str, float]) -> tuple[str, ...]:
    ours = rates[OURS]
    others = [rates.get(system) for system in (RAY, POOL)]
    return (
        case.title,
        f"{case.unit}/s",
        number(ours),
        *("" if other is None else number(other) for other in others),
        *("" if other is None else f"{number(ours / other)} times" for other in others),
    )


def ray_figures(repeats: int, with_ray: bool) -> tuple[list[Check], Table]:
    """All cases; Ray's column stays empty when it is not asked for or not installed."""
    systems = [OURS, POOL, *([RAY] if with_ray and importlib.util.find_spec(RAY) else [])]
    rates = measure(CASES, systems, repeats)
    copy = rates["put-large"]["copy"]
    table = Table(
        title="Tasks, actors and objects: the cases of Ray's microbenchmark, 2 workers",
        note="Every case runs in a process of its own on a cluster of its own, with the same code for FiberNB and for "
        f"Ray; n is 2. Large arrays are of 800 MB, from tasks of 80 MB; numpy copies one at {number(copy)} GB/s here. "
        "With `multiprocessing`, a task is a call on a pool, and an actor an object in a manager's process, or for "
        "many calls at once a pool of one process.",
        head=("", "", "FiberNB", "Ray", "multiprocessing", "against Ray", "against multiprocessing"),
        rows=[row(case, rates[case.name]) for case in CASES],
    )
    return checks(CASES, rates), table
