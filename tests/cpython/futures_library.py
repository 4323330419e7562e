"""CPython's tests of concurrent.futures, by name, whether this version has them in one file or in a package.

What a file defines stands here, where engines import it from; what a package defines, they import from there.
"""

from __future__ import annotations

import importlib
from typing import Final

from tests.cpython.adapter import MissingSuite, find_source, play

SUITE: Final = "test.test_concurrent_futures"
PARTS: Final = (
    "util",
    "executor",
    "test_as_completed",
    "test_deadlock",
    "test_init",
    "test_process_pool",
    "test_shutdown",
    "test_wait",
)

try:
    find_source(f"{SUITE}.util")
except MissingSuite:
    play(SUITE, globals())
else:
    for part in PARTS:
        globals().update(vars(importlib.import_module(f"{SUITE}.{part}")) | {"__name__": __name__})
