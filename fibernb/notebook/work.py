"""A cell that is under way: what it has said so far, how far it is, and what it comes to."""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from fibernb.client import failures
from fibernb.client.cells import CellHandle, CellResult
from fibernb.client.refs import ObjectRef
from fibernb.config import Config
from fibernb.core.messages import Progress, Said, Status
from fibernb.model import Bar, Outcome, Rank
from fibernb.notebook.each import EachHandle
from fibernb.notebook.gathering import Fresh, Gathered
from fibernb.notebook.grouping import Mode
from fibernb.notebook.printing import ITEMS, RANKS, Labels
from fibernb.notebook.snapshot import Snapshot, cluster_line, snapshot_of_ranks

Waiter: TypeAlias = Callable[[Callable[[], bool], float | None], bool]  # Session.wait
Check: TypeAlias = Callable[[], None]


class Stopwatch:
    """Tells for how long something runs, or ran."""

    def __init__(self) -> None:
        self._began_at = time.monotonic()
        self._ended_at: float | None = None

    def stop(self) -> None:
        """It has ended."""
        self._ended_at = time.monotonic()

    def elapsed_s(self) -> float:
        """Seconds since it began, until now or its end."""
        return (time.monotonic() if self._ended_at is None else self._ended_at) - self._began_at


class Heard:
    """Everything that the sources of a cell (its ranks, or its items) have said. Filled from any thread."""

    def __init__(self, sources: Sequence[int], config: Config) -> None:
        self._lock = threading.Lock()
        self._gathered = Gathered(
            sources=sources, max_lines=config.output_limit_lines, max_bytes=config.output_limit_bytes
        )
        self._bars: dict[tuple[Rank, int], Bar] = {}

    def take(self, source: int, said: Said) -> None:
        """Add what a source said."""
        with self._lock:
            if isinstance(said, Progress):
                self._bars.update(((said.rank, bar.bar), bar) for bar in said.bars)
            else:
                self._gathered.take(source, said)

    def end(self, source: int) -> None:
        """A source says no more."""
        with self._lock:
            self._gathered.end(source)

    def bars(self) -> list[tuple[Rank, Bar]]:
        """The bars that are open, by rank; all of them when every one is closed."""
        with self._lock:
            bars = [(rank, self._bars[rank, number]) for rank, number in sorted(self._bars)]
        return [(rank, bar) for rank, bar in bars if not bar.closed] or bars

    def last_lines(self) -> dict[int, str]:
        """The last line of every source."""
        with self._lock:
            return self._gathered.last_lines()

    def fresh(self, mode: Mode) -> Fresh:
        """What can be shown while the cell runs, and has not been."""
        with self._lock:
            return self._gathered.fresh(mode)

    def rest(self, mode: Mode) -> Fresh:
        """What is left to be shown at the end, within the limits of a cell."""
        with self._lock:
            return self._gathered.rest(mode)


class Work(Protocol):
    """What those who wait for a cell need of it."""

    heard: Heard
    labels: Labels

    @property
    def handle(self) -> CellHandle | EachHandle:
        """What the user holds of it."""

    @property
    def sources(self) -> int:
        """How many ranks or items there are."""

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until it has ended and all it said is here; False after ``timeout_s``."""

    def cancel(self, *, force: bool = False) -> None:
        """Stop it; with ``force`` by replacing engines."""

    def stops(self) -> list[str]:
        """What is told of ranks or items that were cancelled: where they stood, and whose engines were replaced."""

    def ask(self) -> None:
        """Have the hub tell how far it is, for the next `snapshot`."""

    def snapshot(self) -> Snapshot:
        """How far it is."""

    def outcome(self) -> list[Any]:
        """Its values, once it has ended. Raises what it failed with."""


class CellWork:
    """A cell on ranks.

    Parameters
    ----------
    start : starts it, and is given who listens to the ranks.
    check : raises what went wrong with the names that it needs.
    """

    labels: Labels = RANKS

    def __init__(
        self, start: Callable[[Callable[[Said], None]], CellHandle], check: Check, heard: Heard, wait: Waiter
    ) -> None:
        self.heard = heard
        self._check = check
        self._wait = wait
        self._spoke: set[Rank] = set()
        self._ended = threading.Event()
        self._is_cancelled = False
        self._stopwatch = Stopwatch()
        self.handle = start(self._hear)
        for rank, ref in zip(self.handle.ranks, self.handle.refs, strict=False):
            ref.add_done_callback(functools.partial(self._end_rank, rank))
        self.handle.add_done_callback(self._end)  # comes after everything that the ranks said

    @property
    def sources(self) -> int:
        return len(self.handle.ranks)

    def wait(self, timeout_s: float | None) -> bool:
        return self._wait(self._has_ended, timeout_s)

    def cancel(self, *, force: bool = False) -> None:
        self._is_cancelled = True
        self.handle.cancel(force)

    def stops(self) -> list[str]:
        return failures.stops("rank", self.handle.errors())

    def ask(self) -> None:
        self.handle.states()

    def snapshot(self) -> Snapshot:
        states = dict(zip(self.handle.ranks, self.handle.states(), strict=True))
        states.update((rank, "running") for rank in self._spoke if states[rank] == "waiting")
        return snapshot_of_ranks(
            dict(sorted(states.items())),
            elapsed_s=self._stopwatch.elapsed_s(),
            bars=self.heard.bars(),
            last_lines=self.heard.last_lines(),
            waits_for=self.handle.waits_for(),
            cluster=cluster_line(self.handle.cluster_status()),
        )

    def outcome(self) -> CellResult:
        self._check()
        return self.handle.result()

    def _has_ended(self) -> bool:
        """An interrupt may hit whoever is about to tell us, so that we never hear of it."""
        return self._ended.is_set() or (self._is_cancelled and self.handle.done())

    def _end(self, _: CellHandle) -> None:
        self._stopwatch.stop()
        self._ended.set()

    def _end_rank(self, rank: Rank, _: ObjectRef) -> None:
        self.heard.end(rank)

    def _hear(self, said: Said) -> None:
        self._spoke.add(said.rank)
        self.heard.take(said.rank, said)


class EachWork:
    """A cell on items, as tasks wherever there is room.

    Parameters
    ----------
    check : as for `CellWork`.
    status : what the hub has told last of the cluster.
    """

    labels: Labels = ITEMS

    def __init__(
        self, handle: EachHandle, check: Check, heard: Heard, wait: Waiter, status: Callable[[], Status | None]
    ) -> None:
        self.handle = handle
        self._check = check
        self.heard = heard
        self._wait = wait
        self._status = status
        self._left = len(handle.refs)
        self._is_cancelled = False
        self._outcomes: Counter[Outcome] = Counter()  # of those that have ended
        self._stopwatch = Stopwatch()
        for item, ref in enumerate(handle.refs):
            ref.add_done_callback(functools.partial(self._count, item))

    @property
    def sources(self) -> int:
        return len(self.handle.refs)

    def wait(self, timeout_s: float | None) -> bool:
        return self._wait(self._has_ended, timeout_s)

    def cancel(self, *, force: bool = False) -> None:
        self._is_cancelled = True
        self.handle.cancel(force)

    def stops(self) -> list[str]:
        return failures.stops("item", self.handle.errors())

    def ask(self) -> None:
        self._status()

    def snapshot(self) -> Snapshot:
        outcomes = self._outcomes
        done, cancelled = outcomes[Outcome.OK], outcomes[Outcome.CANCELLED]
        states = {"left": self._left, "done": done, "cancelled": cancelled}
        return Snapshot(
            states={**states, "failed": outcomes.total() - done - cancelled},
            by_rank={},
            elapsed_s=self._stopwatch.elapsed_s(),
            unit="items",
            bars=self.heard.bars(),
            last_lines=self.heard.last_lines(),
            cluster=cluster_line(self._status()),
        )

    def outcome(self) -> list[Any]:
        self._check()
        return self.handle.result()

    def _has_ended(self) -> bool:
        """As that of `CellWork`."""
        return self._left == 0 or (self._is_cancelled and self.handle.done())

    def _count(self, item: int, ref: ObjectRef) -> None:
        self.heard.end(item)
        self._outcomes[Outcome.OK if ref.answer is None else ref.answer.outcome] += 1  # None: it is made again
        self._left -= 1
        if self._left == 0:
            self._stopwatch.stop()
