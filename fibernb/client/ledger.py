"""What a client keeps until it has been answered, so that a hub that was killed can be told again.

Pure bookkeeping: no sockets, no threads. `fibernb.client.books` guards it with a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fibernb.client.refs import Group, ObjectRef, Pinned
from fibernb.core.messages import (
    Autoscale,
    Cancel,
    DefineFunction,
    Detach,
    Message,
    PutObjects,
    Remember,
    Scale,
    Submit,
    SubmitPinned,
)
from fibernb.model import Call, Digest, ObjectId, Rank, Result, TaskId

BATCH_CALLS: Final = 256
BATCH_BYTES: Final = 1_000_000
PORTION_BYTES: Final = 2**26


class Ledger:
    """The state that a new hub has to be told: functions, objects, unanswered calls, namespaces, seats."""

    def __init__(self) -> None:
        self.pending: dict[TaskId, ObjectRef] = {}  # in the order of submission
        self.functions: dict[Digest, DefineFunction] = {}
        self.held: dict[ObjectId, Result] = {}  # values that the hub keeps for us
        self.remembered: list[Remember] = []
        self.cancelled: dict[TaskId, Cancel] = {}
        self.scaling: Scale | Autoscale | None = None
        self.detached = False

    def note(self, message: Message) -> None:
        """Keep of a message that is sent what a new hub would have to be told."""
        if isinstance(message, Remember):
            self.remembered = [old for old in self.remembered if not _takes_over(message, old)]
            self.remembered.append(message)
        elif isinstance(message, Scale | Autoscale):
            self.scaling = message
        elif isinstance(message, Cancel):
            self.cancelled.update((task, message) for task in message.tasks if task in self.pending)
        elif isinstance(message, Detach):
            self.detached = True

    def replay(self, fresh: bool) -> list[Message]:
        """What to send first on a new link. ``fresh``: to a hub that knows nothing of this client.

        Calls go again in any case, since the break may have swallowed them; the hub knows by their ids which it has.
        """
        messages: list[Message] = [*self.functions.values(), *self._puts(), *self.remembered]
        if fresh and self.scaling is not None:
            messages.append(self.scaling)
        if self.detached:
            messages.append(Detach())
        messages += _submissions(self.pending.values())
        messages += self._cancels()
        return messages

    def _puts(self) -> Iterator[Message]:
        return (PutObjects(objects=[value]) for value in self.held.values())

    def _cancels(self) -> Iterator[Message]:
        self.cancelled = {task: message for task, message in self.cancelled.items() if task in self.pending}
        for task, message in self.cancelled.items():
            yield Cancel(tasks=[task], force=message.force, recursive=message.recursive)


class Outbox:
    """Messages that wait to be sent, in order, the open batch of calls last."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._size_bytes = 0
        self._group: Group | None = None
        self._messages: list[Message] = []

    def add_call(self, group: Group, call: Call) -> bool:
        """Put a call into the batch of its group; True when it is time to send."""
        size_bytes = self._size_bytes + len(call.args)
        if group is not self._group or size_bytes > BATCH_BYTES:
            self._cut()
            self._group = group
            self._size_bytes = len(call.args)
        else:
            self._size_bytes = size_bytes
        self._calls.append(call)
        return len(self._calls) >= BATCH_CALLS or size_bytes > BATCH_BYTES

    def add_batch(self, group: Group, calls: list[Call]) -> None:
        """Put a whole batch of calls of one group behind everything that waits."""
        self.add(_submission(group, calls))

    def add(self, message: Message) -> None:
        """Put a message behind everything that waits."""
        self._cut()
        self._messages.append(message)

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
        return bool(self._calls or self._messages)

    def _cut(self) -> None:
        if self._calls:
            assert self._group is not None
            self._messages.append(_submission(self._group, self._calls))
            self._calls = []
            self._size_bytes = 0


REPLAYED: Final = (DefineFunction, Submit, SubmitPinned, Remember, PutObjects, Detach, Cancel)


def _submission(group: Group, calls: list[Call]) -> Submit:
    return Submit(function=group.function, calls=calls, options=group.options, parent=group.parent)


def _submissions(refs: Iterable[ObjectRef]) -> list[Message]:
    """Unanswered calls as messages: neighbours of one group together, pinned ones each for itself."""
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
