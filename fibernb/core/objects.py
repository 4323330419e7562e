"""Values that calls refer to.

An entry lives while its client holds it (put and not released) or an unfinished task needs it. A result that a later
call may refer to is not here: it waits in the board's answers until its client has acknowledged it, and becomes an
entry when a call needs it.
"""

from __future__ import annotations

from collections.abc import Iterable

from fibernb.core.tasks import Task
from fibernb.model import Call, ObjectId, Result


class Entry:
    """An object that is there (``result``) or will be (``waiting`` tasks are told)."""

    __slots__ = ("held", "result", "uses", "waiting")

    def __init__(self, result: Result | None) -> None:
        self.result = result
        self.held = False
        self.uses = 0
        self.waiting: list[Task] = []


class Objects:
    """All objects that are held or needed."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[ObjectId, Entry] = {}

    def put(self, result: Result) -> list[Task]:
        """A client holds this object from now on; returns the tasks that were waiting for it."""
        entry = self.entries.get(result.id)
        if entry is None:
            entry = self.entries[result.id] = Entry(result)
        entry.held = True
        return self.fulfil(entry, result)

    def fulfil(self, entry: Entry, result: Result) -> list[Task]:
        """An object has its value; returns the tasks that were waiting for it."""
        entry.result = result
        waiting, entry.waiting = entry.waiting, []
        return waiting

    def release(self, object_id: ObjectId) -> None:
        """The client does not hold this object any more; harmless when it did not."""
        entry = self.entries.get(object_id)
        if entry is not None:
            entry.held = False
            self._drop_if_unused(object_id, entry)

    def need(self, object_id: ObjectId, task: Task, known: Result | None) -> Entry:
        """A task needs this object; ``known`` is its value where the entry is new and the value is there."""
        entry = self.entries.get(object_id)
        if entry is None:
            entry = self.entries[object_id] = Entry(known)
        entry.uses += 1
        if entry.result is None:
            entry.waiting.append(task)
            task.blockers += 1
        return entry

    def needed_no_more(self, call: Call) -> None:
        """The task of this call has ended."""
        for object_id in dict.fromkeys(call.deps):
            entry = self.entries.get(object_id)
            if entry is not None:
                entry.uses -= 1
                self._drop_if_unused(object_id, entry)

    def _drop_if_unused(self, object_id: ObjectId, entry: Entry) -> None:
        if not entry.held and not entry.uses:
            del self.entries[object_id]

    def size_bytes(self, object_ids: Iterable[ObjectId]) -> int:
        """How large the values of these objects are together, as far as they are there."""
        found = (self.entries[object_id].result for object_id in object_ids)
        return sum(len(result.value) for result in found if result is not None)

    def inputs(self, calls: list[Call]) -> list[Result]:
        """The values that these calls refer to, each once."""
        needed = dict.fromkeys(object_id for call in calls for object_id in call.deps)
        results = [self.entries[object_id].result for object_id in needed]
        return [result for result in results if result is not None]
