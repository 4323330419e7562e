"""What a client keeps until it has been answered, so that a hub that was killed can be told again.

Pure bookkeeping: no sockets, no threads. `fibernb.client.books` guards it with a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fibernb.client.refs import ActorGroup, Group, ObjectRef, Pinned
from fibernb.core.messages import (
    Autoscale,
    Blocked,
    CallActor,
    Cancel,
    Consume,
    CreateActor,
    CreateGroup,
    DefineFunction,
    Detach,
    Fetch,
    Hold,
    Message,
    PutObjects,
    Release,
    Remember,
    Scale,
    Submit,
    SubmitPinned,
)
from fibernb.model import DEFAULT_OPTIONS, Call, Digest, EngineId, ObjectId, Rank, Result, TaskId

BATCH_CALLS: Final = 256
BATCH_BYTES: Final = 1_000_000
PORTION_BYTES: Final = 2**26


class Ledger:
    """The state that a new hub has to be told: functions, unanswered calls, namespaces, seats."""

    def __init__(self) -> None:
        self.pending: dict[TaskId, ObjectRef] = {}  # in the order of submission
        self.functions: dict[Digest, DefineFunction] = {}
        self.remembered: list[Remember] = []
        self._keepers: dict[ObjectId, ObjectRef] = {}  # of what stands in the arguments of those
        self.cancelled: dict[TaskId, Cancel] = {}
        self.scaling: Scale | Autoscale | None = None
        self.detached = False

    def note(self, message: Message, keepers: Iterable[ObjectRef] = ()) -> None:
        """Keep of a message that is sent what a new hub would have to be told.

        ``keepers``: references to the objects that a `Remember` stands in.
        """
        if isinstance(message, Remember):
            self.remembered = [old for old in self.remembered if not _takes_over(message, old)]
            self.remembered.append(message)
            self._keep(keepers)
        elif isinstance(message, Scale | Autoscale):
            self.scaling = message
        elif isinstance(message, Cancel):
            self.cancelled.update((task, message) for task in message.tasks if task in self.pending)
        elif isinstance(message, Detach):
            self.detached = True

    def _keep(self, keepers: Iterable[ObjectRef]) -> None:
        self._keepers.update((ref.id, ref) for ref in keepers)
        if self._keepers:
            needed = {object_id for message in self.remembered for object_id in message.refs}
            self._keepers = {id_: ref for id_, ref in self._keepers.items() if id_ in needed}

    def replay(self, fresh: bool, held: Iterable[Message]) -> list[Message]:
        """What to send first on a new link. ``fresh``: to a hub that knows nothing of this client.

        ``held``: what makes the objects that calls may refer to. Calls go again in any case, since the break may have
        swallowed them; the hub knows by their ids which it has.
        """
        messages: list[Message] = [*self.functions.values(), *held, *self.remembered]
        if fresh and self.scaling is not None:
            messages.append(self.scaling)
        if self.detached:
            messages.append(Detach())
        messages += _submissions(self.pending.values())
        messages += self._cancels()
        return messages

    def _cancels(self) -> Iterator[Message]:
        self.cancelled = {task: message for task, message in self.cancelled.items() if task in self.pending}
        for task, message in self.cancelled.items():
            yield Cancel(tasks=[task], force=message.force, recursive=message.recursive)


class Batch:
    """Calls of one group that will travel together."""

    __slots__ = ("calls", "group", "size_bytes")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.calls: list[Call] = []
        self.size_bytes = 0


class Outbox:
    """Messages that wait to be sent, in order, the open batches of calls last.

    Calls of one group travel together though calls of others came between. That changes their order among groups, so a
    call that refers to others closes all batches; and an actor has one open batch at most, since the order of its calls
    counts.
    """

    def __init__(self) -> None:
        self._batch = _NO_BATCH  # the one that got the last call
        self._open: dict[int, Batch] = {}  # all of them, by actor or else by group
        self._count = 0  # of calls in them
        self._messages: list[Message] = []
        self._put_bytes = 0  # in the last message, if that puts values
        self.diverted: ObjectRef | None = None  # whose call goes straight to an engine,
        self._engine: EngineId = 0  # this one

    # ---- a call that takes another way ---------------------------------------------------------------------

    def divert(self, ref: ObjectRef, engine: EngineId) -> bool:
        """Take out the one call that waits, to be sent to an engine instead. False if it is not all that waits."""
        if not self.holds_only(ref):
            return False
        self._batch = _NO_BATCH
        self._open = {}
        self._count = 0
        self.diverted, self._engine = ref, engine
        return True

    def holds_only(self, ref: ObjectRef) -> bool:
        """Whether the call of this reference is all that waits. Without the lock it may be wrong."""
        return self._count == 1 and not self._messages and self._batch.calls[:1] == [ref.call]

    def come_back(self, *, begun: bool = True) -> None:
        """The hub is to have the diverted call after all. ``begun``: it may have begun on its engine."""
        ref, self.diverted = self.diverted, None
        if ref is None or ref.group is None or ref.call is None:
            return
        if begun:
            ref.group = ref.group.begun(self._engine)
        self.add_call(ref.group, ref.call)

    # ---- what waits ----------------------------------------------------------------------------------------

    def add_call(self, group: Group, call: Call) -> bool:
        """Put a call into the batch of its group; True when it is time to send."""
        batch = self._batch
        size_bytes = batch.size_bytes + len(call.args)
        if batch.group is not group or size_bytes > BATCH_BYTES or len(self._open) > 1:
            batch = self._turn_to(group, call)
            size_bytes = batch.size_bytes + len(call.args)
        batch.size_bytes = size_bytes
        batch.calls.append(call)
        self._count = count = self._count + 1
        return count >= BATCH_CALLS or size_bytes > BATCH_BYTES

    def _turn_to(self, group: Group, call: Call) -> Batch:
        """The open batch for this call: the one of its group, if it may be appended there."""
        if self._open and not self._may_append(group, call):
            self._cut()
        batch = self._open.get(group.key)
        if batch is None:
            batch = self._open[group.key] = Batch(group)
        self._batch = batch
        return batch

    def _may_append(self, group: Group, call: Call) -> bool:
        """Whether a call may go to a batch before or behind which others are open."""
        if call.deps or call.refs:
            return False
        batch = self._open.get(group.key)
        return batch is None or (_are_one(batch.group, group) and batch.size_bytes + len(call.args) <= BATCH_BYTES)

    def add_batch(self, group: Group, calls: list[Call]) -> None:
        """Put a whole batch of calls of one group behind everything that waits."""
        self.add(_submission(group, calls))

    def add(self, message: Message) -> None:
        """Put a message behind everything that waits."""
        self._cut()
        self._messages.append(message)

    def put(self, value: Result) -> None:
        """Put a value behind everything that waits; neighbours travel in one message."""
        self._cut()
        self._put_bytes += len(value.value)
        last = self._messages[-1] if self._messages else None
        if isinstance(last, PutObjects) and self._put_bytes <= BATCH_BYTES:
            last.objects.append(value)
        else:
            self._messages.append(PutObjects(objects=[value]))
            self._put_bytes = len(value.value)

    def take(self) -> list[Message]:
        """Everything that waits; nothing waits afterwards."""
        self._cut()
        messages, self._messages = self._messages, []
        return messages

    def restart(self, replay: Iterable[Message]) -> None:
        """A new link: the replay comes first; of what waited stays what the replay does not hold."""
        waiting = [message for message in self.take() if not isinstance(message, REPLAYED)]
        self._messages = [*replay, *waiting]

    def __bool__(self) -> bool:
        return bool(self._open or self._messages)

    def _cut(self) -> None:
        if self._open:
            self._messages += [_submission(batch.group, batch.calls) for batch in self._open.values()]
            self._batch = _NO_BATCH
            self._open = {}
            self._count = 0


_NO_BATCH: Final = Batch(Group(b"", DEFAULT_OPTIONS))

REPLAYED: Final = (
    DefineFunction,
    Submit,
    SubmitPinned,
    CallActor,
    CreateActor,
    CreateGroup,
    Remember,
    PutObjects,
    Hold,
    Fetch,
    Release,
    Consume,
    Blocked,
    Detach,
    Cancel,
)


def _are_one(group: Group, other: Group) -> bool:
    """Whether calls of both may travel in one message."""
    return group is other or (
        isinstance(group, ActorGroup)
        and group.function == other.function
        and group.options is other.options
        and group.parent == other.parent
        and group.begun_on == other.begun_on
    )


def _submission(group: Group, calls: list[Call]) -> Message:
    if isinstance(group, ActorGroup):
        return CallActor(
            actor=group.actor,
            function=group.function,
            calls=calls,
            options=group.options,
            parent=group.parent,
            begun_on=group.begun_on,
        )
    return Submit(
        function=group.function, calls=calls, options=group.options, parent=group.parent, begun_on=group.begun_on
    )


def _submissions(refs: Iterable[ObjectRef]) -> list[Message]:
    """Unanswered calls as messages: those of one group together, pinned ones each for itself."""
    messages: list[Message] = []
    outbox = Outbox()
    for ref in refs:
        if ref.group is None or ref.call is None:
            continue
        if isinstance(ref.group, Pinned):
            outbox.add(_pinned(ref.group, ref.call))
        elif outbox.add_call(ref.group, ref.call):
            messages += outbox.take()
    return messages + outbox.take()


def _pinned(group: Pinned, call: Call) -> SubmitPinned:
    return SubmitPinned(
        function=group.function,
        first=call.id,
        ranks=[group.rank],
        args=[call.args],
        deps=call.deps,
        options=group.options,
        parent=group.parent,
    )


def portions(args: Sequence[bytes]) -> Iterator[slice]:
    """Neighbours among the arguments for many ranks that fit into one message together."""
    start = size_bytes = 0
    for index, data in enumerate(args):
        size_bytes += len(data)
        if size_bytes > PORTION_BYTES and index > start:
            yield slice(start, index)
            start, size_bytes = index, len(data)
    yield slice(start, len(args))


def _takes_over(new: Remember, old: Remember) -> bool:
    return set(old.keys) <= set(new.keys) and _covers(new.ranks, old.ranks)


def _covers(new: list[Rank] | None, old: list[Rank] | None) -> bool:
    return new is None or (old is not None and set(old) <= set(new))
