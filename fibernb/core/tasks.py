"""Tasks, and the groups of alike ones that travel together.

There may be millions of tasks, so one is as small as can be, and all that it shares with others is in its group:
calls of one function, by one client, under the same options, for the same parent. A task stands in the board's table
until it has ended.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol, TypeAlias

import msgspec

from fibernb.core.clients import Client
from fibernb.core.functions import Function
from fibernb.core.nodes import is_plain
from fibernb.core.states import TASK_MOVES, IllegalTransition, TaskState
from fibernb.model import STREAMING, Call, ClientId, Digest, EngineId, ObjectId, Rank, TaskId, TaskOptions

ANY_RANK: Final = -1
GroupKey: TypeAlias = tuple[ClientId, Digest, TaskId | None, bytes, ObjectId]


class Queue(Protocol):
    """Where the tasks of a group wait until they are sent."""

    count: int

    def push(self, task: Task) -> None: ...

    def push_many(self, group: Group, tasks: list[Task]) -> None: ...

    def push_front(self, task: Task) -> None: ...

    def push_suspect(self, task: Task) -> None: ...

    def withdrawn(self) -> None: ...

    def sweep(self, group: Group) -> None: ...


class Group:
    """Calls of one function, by one client, under the same options, for the same parent.

    ``ready`` are its queued tasks; ``suspects`` those of them that may have killed an engine and so run alone.
    ``live`` counts tasks that have not ended. ``members`` are these tasks by id, where a parent may have to cancel
    them. ``actor``: the one that they call; or, if they are of no client, that they make.
    """

    __slots__ = (
        "actor",
        "alone",
        "call_bytes",
        "calls",
        "client",
        "function",
        "key",
        "listed",
        "live",
        "members",
        "options",
        "parent",
        "plain",
        "ready",
        "suspects",
        "tied",
        "with_inputs",
    )

    def __init__(
        self,
        key: GroupKey,
        client: Client,
        function: Function,
        options: TaskOptions,
        parent: TaskId | None,
        actor: ObjectId = 0,
    ) -> None:
        self.key = key
        self.client = client
        self.function = function
        self.options = options
        self.parent = parent
        self.ready: deque[Task] = deque()
        self.suspects: deque[Task] = deque()
        self.live = 0
        self.members: dict[TaskId, Task] | None = None if parent is None else {}
        self.actor = actor
        self.calls: Queue | None = None  # where calls of an actor wait
        self.plain = not actor and needs_seat_only(options)
        self.alone = options.max_retries == 0 or options.num_returns == STREAMING  # its calls are sent one by one
        self.tied = parent is not None or options.num_returns != 1 or not client.id  # at its end, more is to be done
        self.call_bytes = 1  # of the largest calls, see `submitting`
        self.with_inputs = False
        self.listed = False  # stands in a queue

    @property
    def queued(self) -> bool:
        return bool(self.ready or self.suspects)

    @property
    def title(self) -> str:
        """What people call the function."""
        return self.options.name or self.function.name


def needs_seat_only(options: TaskOptions) -> bool:
    """Whether any seat will do."""
    elsewhere = options.environment or options.placement or options.node or options.spread
    return not elsewhere and is_plain(options.resources)


class Task(msgspec.Struct, gc=False, eq=False):
    """One call that has not ended. ``blockers``: inputs that do not exist yet. ``attempts``: how often it has failed
    so far. ``since``: when it came, or had its inputs, and so waits for an engine; 0: not known.
    """

    id: TaskId
    call: Call
    group: Group
    state: TaskState = TaskState.QUEUED
    rank: Rank = ANY_RANK  # where it is pinned to
    engine: EngineId = 0
    position: int = 0
    attempts: int = 0
    blockers: int = 0
    cancelling: bool = False  # interrupted, and not yet answered
    since: float = 0.0

    def history(self) -> str:
        """What is known of its past, for errors."""
        return f"engine {self.engine}, position {self.position}, rank {self.rank}, {self.attempts} attempts failed"


def move_task(task: Task, state: TaskState) -> None:
    """The only way in which a task changes its state."""
    if (task.state, state) not in TASK_MOVES:
        raise IllegalTransition(f"task {task.id:#x}", task.state, state, task.history())
    task.state = state


def may_try_again(task: Task) -> bool:
    """Whether a task has a retry left. A negative number of retries means without end."""
    allowed = task.group.options.max_retries
    return task.rank == ANY_RANK and (allowed < 0 or task.attempts < allowed)
