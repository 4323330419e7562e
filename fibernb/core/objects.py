"""Values that others than their maker need: who holds them, what they contain, how they are made again.

An entry lives while clients hold it, or unfinished tasks or other values use it. A small plain result is not here
unless someone asks for it: it waits in the board's answers until its client has acknowledged it.

An entry's *lineage* is the call that made it; it is kept where the value stands in blocks of shared memory or contains
references, since only such values are worth making again or can be lost. The inputs of that call are its *heirloom*:
when nobody holds or uses such an input any more, its value goes like any other, but its entry stays, without a
value, so that it can be made again from its own lineage if that should ever be needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fibernb.core.functions import Function
from fibernb.core.tasks import Task
from fibernb.model import BlockId, Call, ClientId, ObjectId, Result, TaskId, TaskOptions

UNHELD: Final = "nobody held it any more"
LINEAGE_BYTES: Final = 1000  # about what one takes, beside the arguments


class Lineage:
    """How values were made. ``outputs``: the entries that are made so. ``attempts``: how often it has been used up."""

    __slots__ = ("attempts", "call", "function", "options", "outputs")

    def __init__(self, call: Call, function: Function, options: TaskOptions, attempts: int) -> None:
        self.call = call
        self.function = function
        self.options = options
        self.attempts = attempts
        self.outputs: set[ObjectId] = set()

    @property
    def size_bytes(self) -> int:
        return LINEAGE_BYTES + len(self.call.args)

    def may_run(self) -> bool:
        """Whether the values may be made once more."""
        allowed = self.options.max_retries
        return allowed < 0 or self.attempts < allowed


class Entry:
    """An object that is there (``result``), is to come, or was there (``lost`` says how it went).

    ``holders`` counts clients, ``uses`` tasks that have not ended and values that contain it, ``heirs`` lineages whose
    call refers to it. ``waiting`` tasks and ``fetchers`` (clients) are told when it is there. ``maker`` is for people:
    the function that gave it, or "put"; empty while it is to come.
    """

    __slots__ = ("fetchers", "heirs", "holders", "lineage", "lost", "maker", "result", "uses", "waiting")

    def __init__(self, result: Result | None) -> None:
        self.result = result
        self.holders = 0
        self.uses = 0
        self.heirs = 0
        self.lost = ""
        self.maker = ""
        self.lineage: Lineage | None = None
        self.waiting: dict[TaskId, Task] = {}
        self.fetchers: dict[ClientId, None] = {}

    @property
    def needed(self) -> bool:
        """Whether its value has to be kept."""
        return bool(self.holders or self.uses)


class Stream:
    """A streaming task that has begun: how many items its client was given, and how many of them it has taken."""

    __slots__ = ("consumed", "delivered")

    def __init__(self) -> None:
        self.consumed = 0
        self.delivered = 0


class Objects:
    """All objects that are held or needed."""

    __slots__ = (
        "blocks",
        "dropped",
        "entries",
        "freed",
        "kept",
        "lineage_bytes",
        "lineages",
        "patient",
        "wanted",
        "watched",
    )

    def __init__(self) -> None:
        self.entries: dict[ObjectId, Entry] = {}
        self.blocks: dict[BlockId, int] = {}  # how many values stand in each
        self.lineages: dict[TaskId, Lineage] = {}  # oldest first
        self.lineage_bytes = 0
        self.kept: list[BlockId] = []  # new ones since the last drain
        self.freed: list[BlockId] = []
        self.wanted: dict[ObjectId, None] = {}  # are needed, and were lost
        self.watched: set[ObjectId] = set()  # whose end is to be told in
        self.dropped: list[ObjectId] = []
        self.patient = False  # after a restart: not all who hold something have told it yet, so nothing is dropped

    # ---- who needs what ----------------------------------------------------------------------------------

    def entry(self, object_id: ObjectId, known: Result | None = None) -> Entry:
        """The entry of an object, made if there is none; ``known`` is its value then."""
        entry = self.entries.get(object_id)
        if entry is None:
            entry = self.entries[object_id] = Entry(known)
        return entry

    def need(self, object_id: ObjectId, entry: Entry, task: Task) -> None:
        """A task needs this object to begin."""
        entry.uses += 1
        self.wait(object_id, entry, task)

    def wait(self, object_id: ObjectId, entry: Entry, task: Task) -> None:
        """Let a task wait for the value, unless it is there, or the task does so already."""
        if entry.result is None and task.id not in entry.waiting:
            entry.waiting[task.id] = task
            task.blockers += 1
            if entry.lost:
                self.wanted[object_id] = None

    def needed_no_more(self, call: Call) -> None:
        """The task of this call has ended."""
        for object_id in named_by(call):
            entry = self.entries.get(object_id)
            if entry is not None:
                entry.waiting.pop(call.id, None)
                entry.uses -= 1
                if not entry.needed:
                    self.let_go(object_id)

    def use_no_more(self, object_id: ObjectId) -> None:
        """One user less, which was no task."""
        self.entries[object_id].uses -= 1
        self.let_go(object_id)

    def release(self, object_id: ObjectId) -> None:
        """One holder less."""
        entry = self.entries[object_id]
        entry.holders -= 1
        if not entry.needed:
            self.let_go(object_id)

    # ---- values ------------------------------------------------------------------------------------------

    def keep_blocks(self, result: Result) -> None:
        """One more value stands in these blocks."""
        for block in result.blocks:
            count = self.blocks.get(block, 0)
            self.blocks[block] = count + 1
            if not count:
                self.kept.append(block)

    def discard(self, result: Result) -> None:
        """A value came that nobody needs, or that is known already."""
        if not self.patient:
            self.freed += [block for block in result.blocks if block not in self.blocks]

    def drop_value(self, result: Result) -> None:
        """A value that was kept is not needed any more."""
        for object_id in self._drop_value(result):
            self.let_go(object_id)

    def _drop_value(self, result: Result) -> Iterable[ObjectId]:
        """Give up a value's blocks and what it contains; returns the latter, some of which may have to go as well."""
        for block in result.blocks:
            self.blocks[block] -= 1
            if not self.blocks[block]:
                del self.blocks[block]
                self.freed.append(block)
        for object_id in result.refs:
            self.entries[object_id].uses -= 1
        return result.refs

    def lose(self, entry: Entry, reason: str) -> Iterable[ObjectId]:
        """The value of an entry is gone; returns what it contained. It is made again when it is needed."""
        result, entry.result, entry.lost = entry.result, None, reason
        return self._drop_value(result) if result is not None else ()

    def let_go(self, object_id: ObjectId) -> None:
        """Drop an entry if nobody needs it, and then what only it has kept."""
        rest = [object_id]
        while rest and not self.patient:
            object_id = rest.pop()
            entry = self.entries.get(object_id)
            if entry is None or entry.needed:
                continue
            result = entry.result
            if entry.heirs:
                if result is not None and (result.blocks or result.refs):
                    rest += self.lose(entry, UNHELD)
                continue
            del self.entries[object_id]
            self.wanted.pop(object_id, None)
            if result is not None:
                rest += self._drop_value(result)
            if entry.lineage is not None:
                rest += self._leave(entry.lineage, object_id)
            if object_id in self.watched:
                self.watched.remove(object_id)
                self.dropped.append(object_id)

    def size_bytes(self, object_ids: Iterable[ObjectId]) -> int:
        """How large the values of these objects are together in a message, as far as they are there."""
        found = (self.entries[object_id].result for object_id in object_ids)
        return sum(len(result.value) for result in found if result is not None)

    def inputs(self, calls: list[Call]) -> list[Result]:
        """The values that these calls refer to, each once."""
        needed = dict.fromkeys(object_id for call in calls for object_id in call.deps)
        results = [self.entries[object_id].result for object_id in needed]
        return [result for result in results if result is not None]

    # ---- lineage -----------------------------------------------------------------------------------------

    def originate(self, lineage: Lineage) -> None:
        """A new lineage: the inputs of its call stay known."""
        self.lineages[lineage.call.id] = lineage
        self.lineage_bytes += lineage.size_bytes
        for object_id in named_by(lineage.call):
            self.entries[object_id].heirs += 1

    def trim(self, limit_bytes: int) -> None:
        """Forget the oldest lineages until the rest is within the limit."""
        while self.lineage_bytes > limit_bytes:
            lineage = next(iter(self.lineages.values()))
            for object_id in lineage.outputs:
                self.entries[object_id].lineage = None
            for object_id in self._close(lineage):
                self.let_go(object_id)

    def _leave(self, lineage: Lineage, object_id: ObjectId) -> Iterable[ObjectId]:
        """One output less; returns the inputs, some of which may have to go, if it was the last."""
        lineage.outputs.discard(object_id)
        return () if lineage.outputs else self._close(lineage)

    def _close(self, lineage: Lineage) -> Iterable[ObjectId]:
        del self.lineages[lineage.call.id]
        self.lineage_bytes -= lineage.size_bytes
        inputs = named_by(lineage.call)
        for object_id in inputs:
            self.entries[object_id].heirs -= 1
        return inputs


def named_by(call: Call) -> Iterable[ObjectId]:
    """All objects that a call refers to, each once."""
    return dict.fromkeys((*call.deps, *call.refs))
