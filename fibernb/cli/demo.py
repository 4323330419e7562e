"""``fibernb demo``: the smallest thing that shows what this is."""

from __future__ import annotations

import argparse
import os
import random
import time
from typing import Final

import fibernb as fnb
from fibernb.cli.output import show

HELP: Final = "Start a few engines, estimate pi on them, stop."
POINTS: Final = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--workers", type=int, default=4, metavar="N", help="engines (default 4)")
    parser.add_argument("--tasks", type=int, default=32, metavar="N", help="tasks to share among them (default 32)")


def run(options: argparse.Namespace) -> int:
    begun = time.perf_counter()
    cluster = fnb.init(workers=options.workers)
    try:
        cluster.scale(options.workers)
        ready_s = time.perf_counter() - begun
        outcomes = fnb.get([fnb.remote(sample).remote(seed, POINTS) for seed in range(options.tasks)])
        total_s = time.perf_counter() - begun
    finally:
        fnb.shutdown()
    engines = {pid for pid, _ in outcomes}
    pi = 4 * sum(inside for _, inside in outcomes) / (POINTS * options.tasks)
    facts = {"engines": len(engines), "tasks": options.tasks, "pi": pi, "ready_s": ready_s, "total_s": total_s}
    text = (
        f"{options.workers} engines were ready after {ready_s:.2f} s\n"
        f"{options.tasks} tasks ran on {len(engines)} of them, all done after {total_s:.2f} s\n"
        f"pi is about {pi:.4f}"
    )
    show(facts, text, options.json)
    return 0


def sample(seed: int, points: int) -> tuple[int, int]:
    """Process id, and how many of the random points in the unit square lie in the quarter circle."""
    draw = random.Random(seed).random
    return os.getpid(), sum(draw() ** 2 + draw() ** 2 < 1 for _ in range(points))
