"""What ran where and when, for those who look: one record a message, never one a task, and not more than so many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from fibernb.core.messages import Done
from fibernb.core.seats import Engine
from fibernb.model import EngineId, ObjectId, Rank, Result, TaskId

Ids: TypeAlias = range | tuple[TaskId, ...]


class Span(msgspec.Struct, frozen=True, gc=False):
    """Calls that one engine ran in a row and answered in one message; of its actor, if one lives there.

    ``ids``: the tasks, as a range if they are one. ``function`` is that of the last. ``failed``: those that did not
    end well. Times are on the clock of the engine's host; 0: not told.
    """

    engine: EngineId
    rank: Rank
    function: str
    ids: Ids
    began_s: float
    run_s: float
    failed: tuple[TaskId, ...]
    actor: ObjectId

    @property
    def ended_s(self) -> float:
        return self.began_s + self.run_s


class History:
    """The last spans, oldest first. ``total``: how many there were."""

    __slots__ = ("_spans", "total")

    def __init__(self, limit: int) -> None:
        self._spans: deque[Span] = deque(maxlen=limit)
        self.total = 0

    def add(self, engine: Engine, function: str, done: Done, results: list[Result], failed: list[TaskId]) -> None:
        """Note what a message has answered."""
        self.total += 1
        ids = _ids(results)
        span = Span(engine.id, engine.rank, function, ids, done.began_s, done.run_s, tuple(failed), engine.actor)
        self._spans.append(span)

    def newest_first(self) -> Iterator[Span]:
        return reversed(self._spans)


def _ids(results: list[Result]) -> Ids:
    first, last = results[0].id, results[-1].id
    if first == last:
        return (first,)
    if last - first == len(results) - 1:
        return range(first, last + 1)
    return tuple([result.id for result in results])
