"""Progress bars. On an engine they are reported to the notebook; elsewhere they are tqdm's, where that is installed."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeVar

T = TypeVar("T")


class LiveBar:
    """The state of one bar, changed in place by who counts, and looked at now and then by who reports."""

    __slots__ = ("closed", "description", "done", "started_at", "total", "unit")

    def __init__(self, description: str = "", total: float | None = None, unit: str = "it") -> None:
        self.description = description
        self.done = 0.0
        self.total = total
        self.unit = unit
        self.started_at = time.monotonic()  # seconds
        self.closed = False

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_at


_report: Callable[[LiveBar], object] | None = None


def report_bars_to(report: Callable[[LiveBar], object] | None) -> None:
    """From now on, hand every new bar of this process to ``report``. An engine calls this."""
    global _report
    _report = report


def are_reported() -> bool:
    """Whether somebody takes reports of bars in this process."""
    return _report is not None


def open_bar(description: str = "", total: float | None = None, unit: str = "it") -> LiveBar | None:
    """A new bar that is reported; None where nobody takes reports."""
    if _report is None:
        return None
    bar = LiveBar(description, total, unit)
    _report(bar)
    return bar


def progress(iterable: Iterable[T], total: float | None = None, desc: str | None = None) -> Iterator[T]:
    """The items of an iterable, with a progress bar that counts them.

    Parameters
    ----------
    total : how many there will be; by default the length of the iterable, if it has one.
    desc : what stands beside the bar.
    """
    if total is None and isinstance(iterable, Sized):
        total = len(iterable)
    bar = open_bar(desc or "", total)
    return iter(_with_tqdm(iterable, total, desc)) if bar is None else _counted(iterable, bar)


def _counted(iterable: Iterable[T], bar: LiveBar) -> Iterator[T]:
    try:
        for item in iterable:
            yield item
            bar.done += 1
    finally:
        bar.closed = True


def _with_tqdm(iterable: Iterable[T], total: float | None, desc: str | None) -> Iterable[T]:
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return iterable
    bar: Iterable[T] = tqdm(iterable, total=total, desc=desc)
    return bar
