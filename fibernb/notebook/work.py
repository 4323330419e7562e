"""A cell that is under way: what it has said so far, how far it is, and what it comes to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from fibernb.client.cells import CellHandle, CellResult
from fibernb.client.refs import ObjectRef
from fibernb.config import Config
from fibernb.core.messages import Progress, Said, Status
from fibernb.model import Bar, Outcome, Rank
from fibernb.notebook.each import EachHandle
from fibernb.notebook.excerpt import excerpt
from fibernb.notebook.gathering import Gathered
from fibernb.notebook.grouping import Block, Mode, arranged
from fibernb.notebook.printing import ITEMS, RANKS, Labels
from fibernb.notebook.snapshot import Snapshot, cluster_line, snapshot_of_ranks

Waiter: TypeAlias = Callable[[Callable[[], bool], float | None], bool]  # Session.wait
Check: TypeAlias = Callable[[], None]


class Heard:
    """Everything that the sources of a cell (its ranks, or its items) have said. Filled from any thread."""

    def __init__(self, sources: int, config: Config) -> None:
        self._lock = threading.Lock()
        self._config = config
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

    def bars(self) -> list[tuple[Rank, Bar]]:
        """The bars that are open, by rank; all of them when every one is closed."""
        with self._lock:
            bars = [(rank, self._bars[rank, number]) for rank, number in sorted(self._bars)]
        return [(rank, bar) for rank, bar in bars if not bar.closed] or bars

    def last_lines(self) -> dict[int, str]:
        """The last line of every source."""
        with self._lock:
            return self._gathered.last_lines()

    def fresh(self) -> tuple[bool, list[Block]]:
        """What the only source wrote since the last look, and whether what was shown before is to go first."""
        with self._lock:
            found = self._gathered.fresh()
        cleared = any(fresh.cleared for fresh in found.values())
        return cleared, [Block((source,), tuple(fresh.items)) for source, fresh in found.items() if fresh.items]

    def blocks(self, mode: Mode) -> list[Block]:
        """The output as it is to be shown, within the limits of a cell."""
        with self._lock:
            items = self._gathered.items()
        config = self._config
        return excerpt(arranged(items, mode), max_lines=config.output_limit_lines, max_bytes=config.output_limit_bytes)


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
        self._began_at = time.monotonic()
        self.handle = start(self._hear)
        self.handle.add_done_callback(lambda _: self._ended.set())  # comes after everything that the ranks said

    @property
    def sources(self) -> int:
        return len(self.handle.ranks)

    def wait(self, timeout_s: float | None) -> bool:
        return self._wait(self._ended.is_set, timeout_s)

    def cancel(self, *, force: bool = False) -> None:
        self.handle.cancel(force)

    def snapshot(self) -> Snapshot:
        states = dict(zip(self.handle.ranks, self.handle.states(), strict=True))
        states.update((rank, "running") for rank in self._spoke if states[rank] == "waiting")
        return snapshot_of_ranks(
            dict(sorted(states.items())),
            elapsed_s=time.monotonic() - self._began_at,
            bars=self.heard.bars(),
            last_lines=self.heard.last_lines(),
            waits_for=self.handle.waits_for(),
            cluster=cluster_line(self.handle.cluster_status()),
        )

    def outcome(self) -> CellResult:
        self._check()
        return self.handle.result()

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
        self._failed = 0
        self._began_at = time.monotonic()
        for ref in handle.refs:
            ref.add_done_callback(self._count)

    @property
    def sources(self) -> int:
        return len(self.handle.refs)

    def wait(self, timeout_s: float | None) -> bool:
        return self._wait(lambda: self._left == 0, timeout_s)

    def cancel(self, *, force: bool = False) -> None:
        self.handle.cancel(force)

    def snapshot(self) -> Snapshot:
        ended = len(self.handle.refs) - self._left
        return Snapshot(
            states={"left": self._left, "done": ended - self._failed, "failed": self._failed},
            by_rank={},
            elapsed_s=time.monotonic() - self._began_at,
            unit="items",
            bars=self.heard.bars(),
            last_lines=self.heard.last_lines(),
            cluster=cluster_line(self._status()),
        )

    def outcome(self) -> list[Any]:
        self._check()
        return self.handle.result()

    def _count(self, ref: ObjectRef) -> None:
        self._failed += ref.answer is not None and ref.answer.outcome is not Outcome.OK
        self._left -= 1
