"""What the workers do in the benchmarks. A module of its own, so that every peer pickles it by reference.

Runs on Python 3.7 too, for Fiber's sake.
"""

from __future__ import annotations

import time


def nothing(value: int) -> int:
    """The smallest task: gives back its argument."""
    return value


def sleep_1_ms(value: int) -> int:
    time.sleep(0.001)
    return value


def sleep_10_ms(value: int) -> int:
    time.sleep(0.010)
    return value


def sleep_100_ms(value: int) -> int:
    time.sleep(0.100)
    return value


def sleep_1_s(value: int) -> int:
    time.sleep(1)
    return value
