"""Actors and the calls that wait for them.

Calls of one caller run in the order in which they came, so one that waits for its inputs holds up those behind it;
callers are served in turn, and never hold up each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from fibernb.core.functions import Function
from fibernb.core.leases import Lease
from fibernb.core.messages import ActorRecord, CreateActor
from fibernb.core.states import ACTOR_MOVES, ActorState, IllegalTransition, TaskState
from fibernb.core.tasks import Group, Task
from fibernb.model import ClientId, ObjectId, Rank, Result

_QUEUED: Final = TaskState.QUEUED
_RUNNING: Final = TaskState.RUNNING
HISTORY: Final = 8


class CallQueue:
    """Calls that have not been sent, by caller. ``count``: of them, those that have all their inputs.

    A task comes with `line_up` when it is new and with `give_back` when it has been sent before. It counts from when it
    is pushed, as in a `fibernb.core.queueing.FairQueue`. One that has ended is passed over.
    """

    __slots__ = ("_lines", "_ring", "_wake", "count")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._lines: dict[ClientId, deque[Task]] = {}
        self._ring: deque[ClientId] = deque()
        self._wake = wake
        self.count = 0

    def line_up(self, tasks: Iterable[Task]) -> None:
        """New calls of one caller, in order; some may wait for inputs."""
        for task in tasks:
            self._line(task.group.client.id).append(task)

    def give_back(self, tasks: Iterable[Task]) -> None:
        """Calls that were sent, in order, and are to be sent again before all others of their callers."""
        for task in reversed(list(tasks)):
            self._line(task.group.client.id).appendleft(task)
            self._count(task)

    def push(self, task: Task) -> None:
        """A call has all its inputs, or is to be sent again."""
        if task.engine:
            self.give_back([task])
        else:
            self._count(task)

    def push_many(self, group: Group, tasks: list[Task]) -> None:  # noqa: ARG002 - as in a FairQueue
        self.count += len(tasks)
        self._wake()

    def push_front(self, task: Task) -> None:
        self.give_back([task])

    push_suspect = push_front

    def withdrawn(self) -> None:
        self.count -= 1

    def sweep(self, group: Group) -> None:
        """Forget the calls of a group that have ended."""
        client = group.client.id
        left = deque(task for task in self._lines.get(client, ()) if task.state <= _RUNNING)
        if client in self._lines:
            self._lines[client] = left
            self._leave_if_empty(client)

    def take(self, count: int, size_bytes: int, cost: Callable[[Task], int]) -> list[Task]:
        """The next calls of one group of one caller, whose turn is over then."""
        for _ in range(len(self._ring)):
            client = self._ring[0]
            self._ring.rotate(-1)
            tasks = _pop(self._lines[client], count, size_bytes, cost)
            self._leave_if_empty(client)
            if tasks:
                self.count -= len(tasks)
                return tasks
        return []

    def tasks(self) -> list[Task]:
        """All calls that have not ended, in no particular order of turns."""
        return [task for line in self._lines.values() for task in line if task.state <= _RUNNING]

    def is_empty(self) -> bool:
        return not self._lines or not self.tasks()

    def _line(self, client: ClientId) -> deque[Task]:
        line = self._lines.get(client)
        if line is None:
            line = self._lines[client] = deque()
            self._ring.append(client)
        return line

    def _leave_if_empty(self, client: ClientId) -> None:
        if not self._lines[client]:
            del self._lines[client]
            self._ring.remove(client)

    def _count(self, task: Task) -> None:
        task.engine = 0
        self.count += task.state is _QUEUED
        self._wake()


def _pop(line: deque[Task], count: int, size_bytes: int, cost: Callable[[Task], int]) -> list[Task]:
    tasks: list[Task] = []
    group: Group | None = None
    while line and len(tasks) < count:
        task = line[0]
        if task.state > _RUNNING:
            line.popleft()
            continue
        if task.state is not _QUEUED or (tasks and task.group is not group):
            break
        size_bytes -= cost(task)
        if tasks and size_bytes < 0:
            break
        group = task.group
        tasks.append(line.popleft())
    return tasks


class Actor:
    """One actor, from its `CreateActor` until nobody holds it any more.

    ``rank`` is that of the seat beside the seats which its engines take, 0 while it has none. ``value`` is what its
    object is, once that is decided; ``ended`` why it is no more, ``exit_code`` that of its last process; ``maker`` the
    group of the task that makes it.
    """

    __slots__ = (
        "_changes",
        "calls",
        "checkpoint",
        "create",
        "ended",
        "exit_code",
        "function",
        "groups",
        "id",
        "lease",
        "maker",
        "rank",
        "restarts",
        "run_s",
        "state",
        "unheld",
        "value",
    )

    def __init__(self, create: CreateActor, function: Function, wake: Callable[[], None]) -> None:
        self.id: ObjectId = create.actor
        self.create = create
        self.function = function
        self.state = ActorState.PENDING
        self.calls = CallQueue(wake)
        self.groups: dict[Group, None] = {}  # of calls that have not ended
        self.maker: Group | None = None
        self.lease: Lease | None = None
        self.rank: Rank = 0
        self.restarts = 0
        self.checkpoint: bytes | None = None
        self.run_s: float | None = None  # of its calls, about
        self.value: Result | None = None
        self.unheld = False
        self.ended = ""
        self.exit_code: int | None = None
        self._changes: deque[ActorState] = deque([self.state], maxlen=HISTORY)

    def move(self, state: ActorState) -> None:
        """The only way in which an actor changes its state."""
        if (self.state, state) not in ACTOR_MOVES:
            raise IllegalTransition(f"actor {self.id:#x}", self.state, state, self.history())
        self.state = state
        self._changes.append(state)

    def history(self) -> str:
        return " -> ".join(state.name for state in self._changes)

    @property
    def dead(self) -> bool:
        return self.state is ActorState.DEAD

    @property
    def class_name(self) -> str:
        return self.create.options.class_name or self.function.name

    @property
    def title(self) -> str:
        """For people."""
        name, own_name = self.class_name or "the actor", self.create.options.name
        return f"{name} {own_name!r}" if own_name else name

    @property
    def sequential(self) -> bool:
        options = self.create.options
        return options.max_concurrency == 1 and not options.groups and not options.is_async

    @property
    def detached(self) -> bool:
        return self.create.options.detached

    def may_restart(self) -> bool:
        allowed = self.create.options.max_restarts
        return allowed < 0 or self.restarts < allowed

    def record(self) -> ActorRecord:
        """What its next engine has to know."""
        return ActorRecord(
            create=self.create, code=self.function.code, restarts=self.restarts, checkpoint=self.checkpoint
        )
