"""Files by which cells tell a test how far they are, and by which a test tells cells to go on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.notebook.kernel import PATIENCE_S, Kernel

HOUR_S: Final = 3600
"""A limit of time that is never over by itself."""

_CLOCK: Final = """
import itertools as _itertools, pathlib as _pathlib, time as _time, types as _types
import fibernb.notebook.waiting as _waiting
_looks = _itertools.count(1)
def _now():
    is_over = len(list(_pathlib.Path({directory!r}).glob({pattern!r}))) >= {count}
    return _time.monotonic() + is_over * next(_looks) * {step_s}
_waiting.time = _types.SimpleNamespace(monotonic=_now)"""


def mark(directory: Path, name: str = "begun") -> str:
    """A line of a cell's body: the rank has come so far."""
    return f"__import__('pathlib').Path({str(directory)!r}, f'{name} {{rank}}').touch()"


def gate(path: Path) -> str:
    """A line of a cell's body: wait until there is such a file."""
    return f"while not __import__('pathlib').Path({str(path)!r}).exists(): __import__('time').sleep(0.01)"


def wait_for_marks(directory: Path, count: int, name: str = "begun") -> None:
    """Wait until so many ranks have."""
    end = time.monotonic() + PATIENCE_S
    while len(found := list(directory.glob(f"{name} *"))) < count:
        assert time.monotonic() < end, found
        time.sleep(0.01)


def wait_until_none_beats(beats: Sequence[Path]) -> None:
    """Wait until nobody has written these files, which are written again and again, for a while."""
    end = time.monotonic() + PATIENCE_S
    while True:
        before = [path.stat().st_mtime_ns for path in beats]
        time.sleep(0.2)
        if before == [path.stat().st_mtime_ns for path in beats]:
            return
        assert time.monotonic() < end, "something still runs"


@contextmanager
def time_runs_out_at_marks(kernel: Kernel, directory: Path, count: int, name: str = "begun") -> Iterator[None]:
    """For cells `HOUR_S` go by from one look at the clock to the next, once so many ranks have come so far."""
    kernel.run(_CLOCK.format(step_s=2 * HOUR_S, directory=str(directory), pattern=f"{name} *", count=count))
    yield
    kernel.run("_waiting.time = _time")
