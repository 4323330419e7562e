"""A job: the items of one call of a pool's method, and which of them wait to be sent. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from fibernb.multiprocessing.pooling.messages import Blobs, Shape
from fibernb.multiprocessing.pooling.pace import Pace


class Span(NamedTuple):
    """Items from ``start`` on, up to ``stop``, which is not one of them."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


class Items(Protocol):
    """Where the items of a job are."""

    def reach(self) -> int:
        """How many items, from the first on, may be sent now."""

    def get(self, span: Span) -> Sequence[Any]:
        """These items."""

    def drop(self, span: Span) -> None:
        """These items are done and will not be asked for again."""


class Listed:
    """Items that are all there."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def reach(self) -> int:
        return len(self._items)

    def get(self, span: Span) -> Sequence[Any]:
        return self._items[span.start : span.stop]

    def drop(self, span: Span) -> None:
        """They go with the job."""


class Fed:
    """Items that come one by one."""

    def __init__(self) -> None:
        self._items: dict[int, Any] = {}
        self._count = 0

    def add(self, item: Any) -> None:
        self._items[self._count] = item
        self._count += 1

    def reach(self) -> int:
        return self._count

    def get(self, span: Span) -> Sequence[Any]:
        return [self._items[index] for index in range(*span)]

    def drop(self, span: Span) -> None:
        for index in range(*span):
            self._items.pop(index, None)


class Job:
    """Items of one function that wait to be sent, and those that came back.

    Parameters
    ----------
    number : of the job, larger for later ones.
    function : number of its code.
    items : where its items are.
    pace : of its function.
    packed : its items as they travel, if they have been pickled already.
    """

    __slots__ = (
        "_again",
        "_alone",
        "_deaths",
        "_next",
        "function",
        "is_dropped",
        "is_queued",
        "items",
        "number",
        "pace",
        "packed",
        "shape",
    )

    def __init__(
        self, *, number: int, function: int, shape: Shape, items: Items, pace: Pace, packed: Blobs | None = None
    ) -> None:
        self.number = number
        self.function = function
        self.shape = shape
        self.items = items
        self.pace = pace
        self.packed = packed
        self.is_dropped = False
        self.is_queued = False  # the ledger's mark
        self._next = 0
        self._again: deque[Span] | None = None  # were taken back, or lost by accident
        self._alone: deque[int] | None = None  # one of them may have killed its worker
        self._deaths: dict[int, int] | None = None

    def waiting(self) -> int:
        """How many items can be sent now."""
        if self.is_dropped:
            return 0
        count = self.items.reach() - self._next
        if self._again:
            count += sum(span.size for span in self._again)
        return count + len(self._alone) if self._alone else count

    def has_suspects(self) -> bool:
        """Whether the next item has to travel alone."""
        return bool(self._alone)

    def take(self, most: int) -> Span:
        """The next items to send, at most so many; at least one must be waiting."""
        if self._alone:
            index = self._alone.popleft()
            return Span(index, index + 1)
        if self._again:
            return self._take_again(self._again, most)
        span = Span(self._next, min(self._next + most, self.items.reach()))
        self._next = span.stop
        return span

    def give_back(self, span: Span) -> None:
        """These items have not begun: they go first."""
        if span.size:
            if self._again is None:
                self._again = deque()
            self._again.appendleft(span)

    def suspect(self, span: Span) -> None:
        """These items were at a worker that died: each will travel alone, so that the next death tells which it was."""
        if self._alone is None:
            self._alone = deque()
        self._alone.extend(range(*span))

    def note_death(self, index: int) -> int:
        """A worker died with this item: for the how-manieth time."""
        if self._deaths is None:
            self._deaths = {}
        self._deaths[index] = self._deaths.get(index, 0) + 1
        return self._deaths[index]

    def _take_again(self, again: deque[Span], most: int) -> Span:
        first = again.popleft()
        span = Span(first.start, min(first.start + most, first.stop))
        self.give_back(Span(span.stop, first.stop))
        return span
