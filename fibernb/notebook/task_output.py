"""What the plain tasks of one cell write: shown in that cell as it comes, a few times a second, up to a limit."""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import groupby
from typing import Final

from fibernb.config import Config
from fibernb.core.messages import Display, Output
from fibernb.model import Rank, TaskId
from fibernb.notebook.excerpt import left_out, lines_of, size_of
from fibernb.notebook.grouping import Block, Item, LeftOut, Rich
from fibernb.notebook.printing import Printer, Text, write
from fibernb.notebook.source_output import SourceOutput
from fibernb.notebook.task_bars import Later
from fibernb.notebook.undisturbed import undisturbed

PERIOD_S: Final = 0.2
"""The time between two messages, in the mean."""

BURST: Final = 5
"""How many messages may be sent at once after a pause."""

MORE: Final = Text("stdout", "… more output of this cell's tasks is in %fiber log …\n")


class Pace:
    """Says when the next message may be sent, so that they are never more than ten in a second."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._spent_until_s = clock()

    def pause_s(self) -> float:
        """How long to wait; 0 when it may be sent now."""
        return max(0.0, self._spent_until_s - self._clock() - (BURST - 1) * PERIOD_S)

    def spend(self, messages: int) -> None:
        """So many have been sent."""
        self._spent_until_s = max(self._spent_until_s, self._clock()) + messages * PERIOD_S


class TaskOutput:
    """The first half of what the cell may show is shown as it comes, the end of the rest when the cell ends.

    Shows in the context in which it is made. From any thread.

    Parameters
    ----------
    later : calls something after some seconds.
    clock : seconds that only go forward.
    """

    def __init__(
        self, printer: Printer, later: Later, config: Config, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._printer = printer
        self._later = later
        self._pace = Pace(clock)
        self._context = contextvars.copy_context()
        self._lock = threading.RLock()
        self._max_lines, self._max_bytes = max(2, config.output_limit_lines), max(2, config.output_limit_bytes)
        self._head = _Room(self._max_lines // 2, self._max_bytes // 2)
        self._rest = _Room(self._max_lines // 2, self._max_bytes // 2)
        self._writers: dict[tuple[TaskId, Rank], SourceOutput] = {}  # tasks whose last line has no end yet
        self._pending: list[Block] = []
        self._tail: deque[Block] = deque()
        self._gap = LeftOut(0, 0)
        self._gap_ranks: set[Rank] = set()
        self._is_due = False
        self._has_ended = False
        self._said_more = False

    def take(self, said: Output | Display) -> None:
        """Show this now or soon, if there is room."""
        with self._lock:
            for item in self._items_of(said):
                self._keep(Block((said.rank,), (item,)))
            if self._is_due or not (self._pending or self._has_ended):
                return
            pause_s = self._pace.pause_s()
            if pause_s:
                self._is_due = True
                self._later(pause_s, self.show)
            else:
                self.show()

    def show(self) -> None:
        """Show now what waits."""
        with self._lock:
            self._is_due = False
            if self._has_ended:
                self._end_lines()
            if self._pending:
                with undisturbed():
                    blocks, self._pending = self._pending, []
                    self._pace.spend(self._context.run(self._printer.show, _by_rank(blocks)))

    def end(self) -> None:
        """The cell has ended: show the end of what did not fit. What its tasks say later is shown if there is room."""
        with self._lock:
            self._end_lines()
            if self._gap.lines or self._gap.displays:
                self._pending.append(Block(tuple(sorted(self._gap_ranks)), (self._gap,)))
            self._pending.extend(self._tail)
            self._tail.clear()
            self._gap, self._gap_ranks = LeftOut(0, 0), set()
            self._has_ended = True
            self.show()

    # ---- keeping -----------------------------------------------------------------------------------------

    def _items_of(self, said: Output | Display) -> list[Item]:
        """The lines that it brings to an end, or the display."""
        if isinstance(said, Display) and said.kind == "clear":
            return []
        key = said.task, said.rank
        writer = self._writers.pop(key, None) or SourceOutput(2 * self._max_lines, 2 * self._max_bytes, self._max_bytes)
        writer.take(said)
        if writer.is_within_a_line:
            self._writers[key] = writer
        return writer.take_finished()

    def _end_lines(self) -> None:
        for (_, rank), writer in self._writers.items():
            for item in writer.items():
                self._keep(Block((rank,), (item,)))
        self._writers.clear()

    def _keep(self, block: Block) -> None:
        item = block.items[0]
        if self._is_update_of_pending(block):
            return
        if self._head.take(item):
            self._pending.append(block)
        elif not self._has_ended:
            self._keep_for_the_end(block)
        elif self._rest.take(item):
            self._pending.append(block)
        elif not self._said_more:
            self._said_more = True
            self._context.run(write, MORE)

    def _is_update_of_pending(self, block: Block) -> bool:
        """Whether it has taken the place of an update that nobody has seen."""
        item = block.items[0]
        if not isinstance(item, Rich) or not item.update:
            return False
        for at, other in enumerate(self._pending):
            shown = other.items[0]
            if other.ranks == block.ranks and isinstance(shown, Rich) and shown.display_id == item.display_id:
                self._pending[at] = Block(block.ranks, (item._replace(update=shown.update),))
                return True
        return False

    def _keep_for_the_end(self, block: Block) -> None:
        self._head.close()
        self._tail.append(block)
        self._rest.force(block.items[0])
        while self._rest.is_overdrawn and len(self._tail) > 1:
            oldest = self._tail.popleft()
            self._rest.give_back(oldest.items[0])
            self._gap = left_out([self._gap, *oldest.items])
            self._gap_ranks.update(oldest.ranks)


class _Room:
    """How many lines and bytes are left."""

    def __init__(self, lines: int, size_bytes: int) -> None:
        self._lines = lines
        self._bytes = size_bytes

    def take(self, item: Item) -> bool:
        """Whether there was room for it; an update takes none."""
        if isinstance(item, Rich) and item.update:
            return True
        if self._lines < 1 or self._bytes < size_of(item):
            return False
        self.force(item)
        return True

    def force(self, item: Item) -> None:
        """Take room that may not be there."""
        self._lines -= lines_of(item)
        self._bytes -= size_of(item)

    def give_back(self, item: Item) -> None:
        """It is not shown after all."""
        self._lines += lines_of(item)
        self._bytes += size_of(item)

    @property
    def is_overdrawn(self) -> bool:
        """Whether more was taken than there was."""
        return self._lines < 0 or self._bytes < 0

    def close(self) -> None:
        """No more is taken."""
        self._lines = 0


def _by_rank(blocks: list[Block]) -> list[Block]:
    """Successive items of a rank in one block."""
    return [
        Block(ranks, tuple(item for block in run for item in block.items))
        for ranks, run in groupby(blocks, key=lambda block: block.ranks)
    ]
