"""What was, for those who look, and never more than so much of it.

What ran where and when takes one record a message and not one a task. Tasks that ended without a value have a record
each, for many of them no engine has ever answered: they were cancelled in a queue, could not be placed, or died with
their engine. Actors have one when nobody can ask for them any more.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from fibernb.core.actors import Actor
from fibernb.core.messages import Done, Ran
from fibernb.core.seats import Engine, Pause
from fibernb.core.states import TaskState
from fibernb.model import EngineId, ObjectId, Rank, Result, TaskId

Ids: TypeAlias = range | tuple[TaskId, ...]


class Span(msgspec.Struct, frozen=True, gc=False):
    """Calls that one engine ran in a row and answered in one message; of its actor, if one lives there.

    ``ids``: the tasks, as a range if they are one. ``function`` is that of the last. ``failed``: those that did not
    end well. Times are on the clock of the engine's host; 0: not told. ``waited_s``: how long the first of them had
    waited for an engine since it could have run.
    """

    engine: EngineId
    rank: Rank
    function: str
    ids: Ids
    began_s: float
    run_s: float
    failed: tuple[TaskId, ...]
    actor: ObjectId
    waited_s: float

    @property
    def ended_s(self) -> float:
        return self.began_s + self.run_s


class Wait(msgspec.Struct, frozen=True, gc=False):
    """A task has waited for others, in ``get`` or ``wait``. Times are on the hub's clock."""

    engine: EngineId
    rank: Rank
    id: TaskId
    name: str
    began_s: float
    ended_s: float


class Ending(msgspec.Struct, frozen=True, gc=False):
    """A task that ended without a value. ``after``: how many spans there were before. ``engine``: 0 for none.
    ``error``: what kind it is, and its first line.
    """

    id: TaskId
    name: str
    state: str
    actor: ObjectId
    engine: EngineId
    rank: Rank | None
    after: int
    error: str


Numbered: TypeAlias = tuple[float, Span | Ending]


class PastActor(msgspec.Struct, frozen=True, gc=False):
    """An actor that is dead, and that nobody can ask for any more."""

    id: ObjectId
    class_name: str
    name: str
    namespace: str
    detached: bool
    restarts: int
    max_restarts: int
    ended: str


class History:
    """The last spans, oldest first, and what ended badly. ``total``: how many spans there were.

    Parameters
    ----------
    limit : spans to keep, and as many endings of tasks and waits for others.
    max_actors : actors to keep that are no more; they are in ``actors``, oldest first.
    """

    __slots__ = ("_endings", "_limit", "_spans", "_waits", "actors", "total")

    def __init__(self, limit: int, max_actors: int = 0) -> None:
        self._spans: deque[Span] = deque(maxlen=limit)
        self._waits: deque[Wait] = deque(maxlen=limit)
        self._endings: OrderedDict[TaskId, Ending] = OrderedDict()
        self._limit = limit
        self.actors: deque[PastActor] = deque(maxlen=max_actors)
        self.total = 0

    def add(
        self,
        engine: Engine,
        function: str,
        done: Done,
        results: list[Result],
        failed: list[TaskId],
        waited_s: float = 0.0,
    ) -> None:
        """Note what a message has answered."""
        ids = _ids([result.id for result in results])
        self._add(engine, function, ids, done, tuple(failed), waited_s)

    def add_direct(self, engine: Engine, ran: Ran) -> None:
        """Note calls that their clients have sent to an engine themselves."""
        self._add(engine, ran.name, _ids(ran.tasks), ran, (), 0.0)

    def _add(
        self, engine: Engine, function: str, ids: Ids, when: Done | Ran, failed: tuple[TaskId, ...], waited_s: float
    ) -> None:
        self.total += 1
        span = Span(engine.id, engine.rank, function, ids, when.began_s, when.run_s, failed, engine.actor, waited_s)
        self._spans.append(span)

    def pause(self, engine: Engine, task_id: TaskId, pause: Pause, now: float) -> None:
        """Note that a task has waited for others until now."""
        self._waits.append(Wait(engine.id, engine.rank, task_id, pause.name, pause.since, now))

    def end_badly(
        self,
        task_id: TaskId,
        name: str,
        state: TaskState,
        actor: ObjectId = 0,
        engine: Engine | None = None,
        error: str = "",
    ) -> None:
        """Note that a task has failed or was cancelled. ``engine``: where that was, if it is there still; ``error``:
        how people are told of it.
        """
        at, rank = (0, None) if engine is None else (engine.id, engine.rank)
        self._endings.pop(task_id, None)
        self._endings[task_id] = Ending(task_id, name, state.name, actor, at, rank, self.total, error)
        if len(self._endings) > self._limit:
            self._endings.popitem(last=False)

    def bury(self, actor: Actor) -> None:
        """Note an actor that is no more."""
        options = actor.create.options
        past = PastActor(
            actor.id,
            actor.class_name,
            options.name,
            options.namespace,
            options.detached,
            actor.restarts,
            options.max_restarts,
            actor.ended,
        )
        self.actors.append(past)

    def ending_of(self, failed: TaskId) -> tuple[str, str]:
        """How a task ended that did not end well: its state and its error."""
        ending = self._endings.get(failed)
        return ("FAILED", "") if ending is None else (ending.state, ending.error)

    def newest_first(self) -> Iterator[Span]:
        return reversed(self._spans)

    def waits(self) -> Iterator[Wait]:
        """Waits of tasks for others that are over, the last first."""
        return reversed(self._waits)

    def ended(self) -> Iterator[Span | Ending]:
        """What has ended, the last first: spans, and endings of tasks that stand in none of them."""
        spans: Iterator[Numbered] = zip(itertools.count(self.total - 1, -1), self.newest_first(), strict=False)
        endings: Iterator[Numbered] = ((ending.after - 0.5, ending) for ending in reversed(self._endings.values()))
        told: set[TaskId] = set()
        for _, what in heapq.merge(spans, endings, key=lambda pair: -pair[0]):
            if isinstance(what, Span):
                told.update(what.failed)
                yield what
            elif what.id not in told:
                yield what


def _ids(ids: list[TaskId]) -> Ids:
    first, last = ids[0], ids[-1]
    if first == last:
        return (first,)
    if last - first == len(ids) - 1:
        return range(first, last + 1)
    return tuple(ids)
