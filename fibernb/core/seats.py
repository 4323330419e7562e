"""Seats and the engines on them.

A seat is a rank: it stays. Seats of ranks below 0 are *beside* the declared ones: they come and go with the work that
needs them. An engine is a process: it comes and goes. An engine has a *line* of calls that it was
sent and has not answered, in the order of their positions; it runs the first. A task in the line that has already
ended for its client is a gravestone: the engine will answer it some time, and nobody waits for that.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from typing import Final, NamedTuple

from fibernb.core.leases import Lease
from fibernb.core.receipts import Receipts
from fibernb.core.states import SEAT_MOVES, IllegalTransition, SeatState, TaskState
from fibernb.core.tasks import Task
from fibernb.model import ClientId, Digest, EngineId, ObjectId, Rank, TaskId

HISTORY: Final = 8


class Pause(NamedTuple):
    """A task waits for others: the name of its function, and since when."""

    name: str
    since: float


class Engine:
    """One process, from when it is asked for until its end is certain."""

    __slots__ = (
        "actor",
        "adopted_from",
        "alone",
        "answered_at",
        "asked",
        "attached",
        "attached_at",
        "blocked",
        "doomed",
        "functions",
        "id",
        "inherited",
        "killed",
        "lease",
        "lends_seat",
        "lent_to",
        "line",
        "line_s",
        "next_position",
        "node",
        "pid",
        "productive",
        "rank",
        "recall_from",
        "recall_until",
        "receipts",
        "redelivers",
        "replaying",
        "short",
        "since",
        "started",
        "used",
        "watched",
        "worn",
    )

    def __init__(self, id_: EngineId, rank: Rank, node: str) -> None:
        self.id = id_
        self.rank = rank
        self.node = node
        self.pid = 0
        self.attached = False
        self.attached_at = 0.0
        self.line: deque[Task] = deque()
        self.line_s = 0.0  # about how long the line takes
        self.since = 0.0  # last sign that the line goes on
        self.answered_at = 0.0  # the last Recall
        self.next_position = 0
        self.started = -1  # the engine has told that it began the call at this position
        self.inherited = 0  # positions below come from a hub before this one
        self.adopted_from = math.inf  # from this position on stand calls that a client had sent itself
        self.alone = False  # nothing may be sent behind what is in the line
        self.recall_from = 0  # the positions that a Recall asks for,
        self.recall_until = 0  # up to here; 0: none is out
        self.functions: set[Digest] = set()  # whose code it has
        self.receipts = Receipts(id_)
        self.redelivers = 0  # Done messages that are still to come from before a restart of the hub
        self.replaying = 0  # calls of its line that make up the namespace
        self.productive = False  # has finished something
        self.doomed = ""  # why it was told to end
        self.asked = False  # to end, by no fault of its own
        self.killed = False
        self.watched: TaskId | None = None  # the interrupted task that has a grace
        self.lease: Lease | None = None  # what its line has of the node, beyond its seat
        self.blocked: dict[TaskId, Pause] = {}  # tasks of the line that wait for others
        self.lent_to: ClientId = 0  # that may send it calls itself, as long as it gets no others
        self.lends_seat = False  # and the seat itself is lent for them
        self.actor: ObjectId = 0  # that lives in it, or will
        self.used: dict[Digest, int] = {}  # calls of functions that wear an engine out
        self.worn = False  # is to be replaced when its line is done
        self.short = ""  # it was stopped since memory was short: the figures

    @property
    def usable(self) -> bool:
        """Whether it takes work."""
        return self.attached and not self.doomed

    def running(self) -> Task:
        """The task of a line (which must not be empty) that runs, as far as is known."""
        begun = [task for task in self.line if task.position <= self.started]
        return begun[-1] if begun else self.line[0]

    def not_begun(self) -> int:
        """How many calls of a line (which must not be empty) have not been started, as far as is known.

        They stand together, at its end or before those that a client had sent itself.
        """
        last = max(self.started, self.line[0].position)
        return sum(1 for task in self.line if last < task.position < self.adopted_from)

    def begun(self, task: Task) -> bool:
        """Whether a task of the line may have been started."""
        if self.actor or task is self.line[0] or task.position <= self.started:
            return True
        return task.position >= self.adopted_from


class Seat:
    """One rank. ``failures``: engines in a row that ended without having been of use.

    One beside the seats is tied to a ``node``, and serves one ``environment``, or an ``actor``.
    """

    __slots__ = (
        "_changes",
        "actor",
        "deaths",
        "engine",
        "environment",
        "failures",
        "node",
        "pinned",
        "rank",
        "since",
        "state",
        "trouble",
    )

    def __init__(self, rank: Rank, now: float, node: str = "", environment: str = "", actor: ObjectId = 0) -> None:
        self.rank = rank
        self.node = node
        self.environment = environment
        self.actor = actor
        self.state = SeatState.WANTED
        self.since = now
        self.engine: Engine | None = None
        self.pinned: deque[Task] = deque()
        self.deaths = 0
        self.failures = 0
        self.trouble = ""  # why the last engine failed
        self._changes: deque[tuple[float, SeatState]] = deque([(now, self.state)], maxlen=HISTORY)

    def move(self, state: SeatState, now: float) -> None:
        """The only way in which a seat changes its state."""
        if (self.state, state) not in SEAT_MOVES:
            raise IllegalTransition(f"seat {self.rank}", self.state, state, self.history())
        self.state = state
        self.since = now
        self._changes.append((now, state))

    def history(self) -> str:
        return " -> ".join(f"{state.name} at {when:.3f}" for when, state in self._changes)

    def pinned_ready(self) -> bool:
        """Whether the next pinned task could run now. One that waits for inputs holds up those behind it."""
        return bool(self.pinned) and self.pinned[0].state is TaskState.QUEUED


class IdleSeats:
    """The ranks of idle seats, lowest first."""

    __slots__ = ("_heap", "_heaped", "_ranks")

    def __init__(self) -> None:
        self._ranks: set[Rank] = set()
        self._heap: list[Rank] = []
        self._heaped: set[Rank] = set()

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, rank: Rank) -> bool:
        return rank in self._ranks

    def add(self, rank: Rank) -> None:
        self._ranks.add(rank)
        if rank not in self._heaped:
            self._heaped.add(rank)
            heapq.heappush(self._heap, rank)

    def discard(self, rank: Rank) -> None:
        self._ranks.discard(rank)

    def lowest(self) -> Rank | None:
        """The lowest idle rank; it stays idle until it is discarded."""
        heap = self._heap
        while heap and heap[0] not in self._ranks:
            self._heaped.discard(heapq.heappop(heap))
        return heap[0] if heap else None

    def in_order(self) -> list[Rank]:
        return sorted(self._ranks)
