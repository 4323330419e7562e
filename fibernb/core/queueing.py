"""Who is next: clients in turn, and the groups of a client in turn.

Each turn takes one batch, and batches hold about the same amount of work, so a million tasks of one client do not
starve the single call of another, nor one function of a client its others. Within a group, tasks leave in the order
in which they came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from fibernb.core.states import TaskState
from fibernb.core.tasks import Group, Task
from fibernb.model import ClientId


class FairQueue:
    """Groups that have queued tasks. ``count`` is the number of these tasks.

    A task that is withdrawn (cancelled, say) is counted out at once, and leaves its group's queues when that is
    swept, which must be done before the next one is taken.
    """

    __slots__ = ("_lines", "_nested", "_ring", "count", "fresh")

    def __init__(self) -> None:
        self._ring: deque[ClientId] = deque()
        self._lines: dict[ClientId, deque[Group]] = {}
        self._nested: dict[Group, None] = {}  # those of them whose tasks other tasks have submitted, the latest last
        self.count = 0
        self.fresh = False  # something was added since this was last set

    def __len__(self) -> int:
        """Number of groups that have queued tasks."""
        return sum(map(len, self._lines.values()))

    def push(self, task: Task) -> None:
        """Add one task at the end of its group."""
        task.group.ready.append(task)
        self.count += 1
        self.list_group(task.group)

    def push_many(self, group: Group, tasks: list[Task]) -> None:
        """Add tasks at the end of their group."""
        group.ready.extend(tasks)
        self.count += len(tasks)
        self.list_group(group)

    def push_front(self, task: Task) -> None:
        """Give back a task that had left."""
        task.group.ready.appendleft(task)
        self.count += 1
        self.list_group(task.group)

    def push_suspect(self, task: Task) -> None:
        """Add a task that has to run alone."""
        task.group.suspects.append(task)
        self.count += 1
        self.list_group(task.group)

    def withdrawn(self) -> None:
        """A task is queued no more, without having been taken; its group must be swept."""
        self.count -= 1

    def sweep(self, group: Group) -> None:
        """Forget the withdrawn tasks of a group, and the group if it has no others."""
        group.ready = deque(task for task in group.ready if task.state is TaskState.QUEUED)
        group.suspects = deque(task for task in group.suspects if task.state is TaskState.QUEUED)
        if group.listed and not group.queued:
            client = group.client.id
            self._lines[client].remove(group)
            self._unlist(group)
            if not self._lines[client]:
                del self._lines[client]
                self._ring.remove(client)

    def list_group(self, group: Group) -> None:
        """Make sure that a group gets its turns."""
        self.fresh = True
        if group.listed:
            return
        group.listed = True
        if group.parent is not None:
            self._nested[group] = None
        line = self._lines.get(group.client.id)
        if line is None:
            line = self._lines[group.client.id] = deque()
            self._ring.append(group.client.id)
        line.append(group)

    def current(self) -> Group | None:
        """The group whose turn it is."""
        return self._lines[self._ring[0]][0] if self._ring else None

    def deepest(self) -> Group | None:
        """The group whose turn it is; but in the turn of a nested one, that which has come last.

        So trees of tasks that wait for each other are gone through in depth, on few engines, rather than in breadth.
        """
        group = self.current()
        if group is None or group not in self._nested:
            return group
        self._ring.rotate(-1)
        group = next(reversed(self._nested))
        self._ring.remove(group.client.id)
        self._ring.appendleft(group.client.id)
        line = self._lines[group.client.id]
        line.remove(group)
        line.appendleft(group)
        return group

    def find(self, accept: Callable[[Group], bool]) -> Group | None:
        """The next group in turn that is acceptable; its turn is now."""
        for client_turns, client in enumerate(self._ring):
            for group_turns, group in enumerate(self._lines[client]):
                if accept(group):
                    self._ring.rotate(-client_turns)
                    self._lines[client].rotate(-group_turns)
                    return group
        return None

    def take(self, group: Group, count: int) -> list[Task]:
        """Up to ``count`` tasks of the current group, whose turn is over then; a suspect comes alone."""
        if group.suspects:
            tasks = [group.suspects.popleft()]
        elif count >= len(group.ready):
            tasks = list(group.ready)
            group.ready.clear()
        else:
            pop = group.ready.popleft
            tasks = [pop() for _ in range(count)]
        self.count -= len(tasks)
        self._end_turn(group)
        return tasks

    def groups(self) -> Iterator[Group]:
        """All groups with queued tasks, in no particular order of turns."""
        for line in self._lines.values():
            yield from line

    def _unlist(self, group: Group) -> None:
        group.listed = False
        self._nested.pop(group, None)

    def _end_turn(self, group: Group) -> None:
        client = self._ring.popleft()
        line = self._lines[client]
        line.popleft()
        if group.queued:
            line.append(group)
        else:
            self._unlist(group)
        if line:
            self._ring.append(client)
        else:
            del self._lines[client]
