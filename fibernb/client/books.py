"""The bookkeeping of a session behind one lock: ids, what is unanswered, what is unsent, what the hub holds for us.

The lock is held for moments only: never while something is sent, received or called back. It is reentrant, and the end
of a reference takes no lock at all, because the garbage collector may run user code anywhere.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from fibernb import serialize
from fibernb.client.ledger import Ledger, Outbox, portions
from fibernb.client.refs import Attachment, Group, ObjectRef, Owner, Pinned
from fibernb.core.messages import (
    Acknowledge,
    DefineFunction,
    Deliver,
    Message,
    PutObjects,
    Release,
    SubmitPinned,
)
from fibernb.errors import NotConnected
from fibernb.model import Call, ClientId, ObjectId, Outcome, Rank, Result, TaskId, TaskOptions, first_id

ACKNOWLEDGE_S: Final = 0.1
ACKNOWLEDGE_DELIVERIES: Final = 64

Due: TypeAlias = tuple[ObjectRef, list[Callable[[ObjectRef], object]]]


class Books:
    """Who waits for what.

    Parameters
    ----------
    owner : the session, which references hold on to.
    """

    def __init__(self, owner: Owner) -> None:
        self.mutex = threading.RLock()
        self.ledger = Ledger()
        self.outbox = Outbox()
        self._owner = owner
        self._next_id = 0
        self._released: deque[ObjectId] = deque()
        self._shared: dict[ObjectId, ObjectRef] = {}
        self._delivered = 0
        self._unacknowledged = 0
        self._delivered_at = 0.0

    def begin(self, client: ClientId) -> None:
        """Number tasks and objects as this client's."""
        self._next_id = first_id(client) + 1

    # ---- what goes out -----------------------------------------------------------------------------------

    def enter(self, group: Group, args: bytes) -> tuple[ObjectRef, bool]:
        """A call without inputs; with it, whether the batch is full."""
        with self.mutex:
            id_ = self._next_id
            self._next_id = id_ + 1
            call = Call(id_, args)
            ref = ObjectRef(id_, self._owner, group, call)
            full = self.outbox.add_call(group, call)
            self.ledger.pending[id_] = ref
            return ref, full

    def enter_many(self, group: Group, arguments: Sequence[bytes]) -> list[ObjectRef]:
        """Calls without inputs that travel in one message."""
        with self.mutex:
            first, owner = self._next_id, self._owner
            self._next_id = first + len(arguments)
            calls = [Call(id_, args) for id_, args in enumerate(arguments, first)]
            refs = [ObjectRef(call.id, owner, group, call) for call in calls]
            self.outbox.add_batch(group, calls)
            self.ledger.pending.update(zip(range(first, self._next_id), refs, strict=True))
            return refs

    def enter_general(self, group: Group, args: bytes, inputs: Sequence[ObjectRef]) -> tuple[list[ObjectRef], bool]:
        """A call that may have inputs and may return several values: a reference for each, the first one's at least."""
        with self.mutex:
            first = self._next_id
            count = max(1, group.options.num_returns)
            self._next_id = first + count
            refs = [ObjectRef(first + offset, self._owner, group) for offset in range(count)]
            self._attach(refs[0], tuple(inputs), tuple(refs[1:]))
            failed = _first_failed(inputs)
            if failed is not None:
                for ref in refs:
                    ref.answer = Result(ref.id, failed.value, failed.outcome)
                return refs, False
            refs[0].call = Call(first, args, tuple(self._dependency(ref) for ref in inputs))
            self.ledger.pending.update((ref.id, ref) for ref in refs)
            return refs, self.outbox.add_call(group, refs[0].call)

    def enter_pinned(
        self,
        function: DefineFunction,
        ranks: Sequence[Rank],
        args: list[bytes],
        options: TaskOptions,
        parent: TaskId | None,
        inputs: Sequence[ObjectRef],
        before: Callable[[list[ObjectRef]], object],
    ) -> list[ObjectRef]:
        """One call on each rank. ``before`` sees the references before anything can be answered."""
        with self.mutex:
            self.define(function)
            first = self._next_id
            self._next_id += len(ranks)
            deps = tuple(self._dependency(ref) for ref in inputs)
            refs = []
            for offset, rank in enumerate(ranks):
                call = Call(first + offset, args[offset if len(args) > 1 else 0], deps)
                ref = ObjectRef(call.id, self._owner, Pinned(function.digest, options, parent, rank), call)
                self._attach(ref, tuple(inputs), ())
                refs.append(ref)
            before(refs)
            self.ledger.pending.update((ref.id, ref) for ref in refs)
            for part in portions(args) if len(args) > 1 else [slice(len(ranks))]:
                self.outbox.add(
                    SubmitPinned(
                        function=function.digest,
                        first=first + (part.start or 0),
                        ranks=list(ranks[part]),
                        args=args[part],
                        deps=deps,
                        options=options,
                        parent=parent,
                    )
                )
            return refs

    def define(self, function: DefineFunction) -> None:
        """Make a function known to the hub, once."""
        with self.mutex:
            if function.digest not in self.ledger.functions:
                self.ledger.functions[function.digest] = function
                self.outbox.add(function)

    def put(self, data: bytes) -> ObjectRef:
        """A reference to a value. The hub gets it with the first call that refers to it."""
        with self.mutex:
            ref = ObjectRef(self._next_id, self._owner)
            self._next_id += 1
        ref.answer = Result(ref.id, data)
        return ref

    def send(self, message: Message) -> None:
        """Put a message behind everything that waits to be sent."""
        with self.mutex:
            self.ledger.note(message)
            self.outbox.add(message)

    def share(self, ref: ObjectRef) -> None:
        """A reference travels inside of a value: from now on the hub holds its value as soon as there is one."""
        with self.mutex:
            if ref.id not in self._shared and self.knows(ref):
                self._shared[ref.id] = ref
                self._dependency(ref)

    def knows(self, ref: ObjectRef) -> bool:
        """Whether this session has the answer or waits for it; otherwise the reference came from somebody else."""
        return ref.answer is not None or ref.id in self.ledger.pending

    def outgoing(self) -> list[Message]:
        """What is to be sent now."""
        with self.mutex:
            released = self._drain_released()
            if released:
                self.outbox.add(Release(objects=released))
            messages = self.outbox.take()
            if self._acknowledgement_due():
                messages.append(self._acknowledge())
            return messages

    def wants_flush(self) -> bool:
        """Whether something waits to be sent now."""
        return bool(self.outbox) or self._acknowledgement_due()

    @property
    def owes(self) -> bool:
        """Whether deliveries have not been acknowledged yet."""
        return self._unacknowledged > 0

    def restart(self, fresh: bool) -> None:
        """A new link: what is sent first is everything that the hub may not know."""
        with self.mutex:
            for ref in list(self.ledger.pending.values()):
                self._hold_inputs(ref)
            self._unacknowledged = 0
            self.outbox.restart(self.ledger.replay(fresh))

    def _acknowledgement_due(self) -> bool:
        return self._unacknowledged > 0 and (
            self._unacknowledged >= ACKNOWLEDGE_DELIVERIES or time.monotonic() - self._delivered_at > ACKNOWLEDGE_S
        )

    def _acknowledge(self) -> Acknowledge:
        self._unacknowledged = 0
        return Acknowledge(sequence=self._delivered)

    def _drain_released(self) -> list[ObjectId]:
        released = []
        while self._released:
            id_ = self._released.popleft()
            if self.ledger.held.pop(id_, None) is not None:
                released.append(id_)
        return released

    # ---- what comes in -----------------------------------------------------------------------------------

    def settle(self, deliver: Deliver) -> list[Due]:
        """Take results in; returns the callbacks that are due. What is known already is only acknowledged."""
        due = self._settle(deliver.results)
        if not self._unacknowledged:
            self._delivered_at = time.monotonic()
        self._delivered = deliver.sequence
        self._unacknowledged += 1
        return due

    def adopt(self, ref: ObjectRef, answer: Result) -> list[Due]:
        """A reference that came from elsewhere has the answer that a task fetched."""
        return self._settle([Result(ref.id, answer.value, answer.outcome)])

    def fail(self, error: Exception) -> list[Due]:
        """Answer everything that is unanswered with an error."""
        value = serialize.dumps_error(error, "")
        with self.mutex:
            lost = [Result(id_, value, Outcome.ERROR) for id_ in self.ledger.pending]
            return self._settle(lost)

    def _settle(self, results: Iterable[Result]) -> list[Due]:
        due: list[Due] = []
        pending = self.ledger.pending
        for result in results:
            ref = pending.pop(result.id, None)
            if ref is None:
                continue
            ref.answer = result
            ref.call = None
            if ref.attachment is not None:
                due += self._settle_attachment(ref, result)
            if self._shared and result.id in self._shared:
                self._publish(ref)
        return due

    def watch(self, ref: ObjectRef, callback: Callable[[ObjectRef], object]) -> bool:
        """Call back when the reference is answered; False when it is answered already."""
        with self.mutex:
            if not ref.done():
                callbacks = self._attachment(ref).callbacks
                callbacks.append(callback)
                if not ref.done():
                    return True
                callbacks.remove(callback)  # answered just now: the reader may not have seen it
        return False

    def _settle_attachment(self, ref: ObjectRef, result: Result) -> list[Due]:
        due: list[Due] = []
        with self.mutex:
            attachment = self._attachment(ref)
            callbacks, attachment.callbacks = attachment.callbacks, []
            attachment.inputs = ()
        if callbacks:
            due.append((ref, callbacks))
        for sibling, value in zip(attachment.siblings, _others(result, len(attachment.siblings)), strict=False):
            self.ledger.pending.pop(sibling.id, None)
            sibling.answer = Result(sibling.id, value, result.outcome)
            if sibling.attachment is not None:
                due += self._settle_attachment(sibling, sibling.answer)
            if sibling.id in self._shared:
                self._publish(sibling)
        return due

    def _publish(self, ref: ObjectRef) -> None:
        with self.mutex:
            self._dependency(ref)

    # ---- values that the hub holds -------------------------------------------------------------------------

    def _dependency(self, ref: ObjectRef) -> ObjectId:
        """The id of an input, seeing to it that the hub has its value or will have it."""
        if ref.session is not self._owner:
            raise NotConnected(f"{ref!r} belongs to another cluster: get its value there, and pass that")
        if ref.answer is not None and ref.answer.outcome is Outcome.OK and ref.id not in self.ledger.held:
            value = Result(ref.id, ref.answer.value)
            self.ledger.held[ref.id] = value
            self.outbox.add(PutObjects(objects=[value]))
            weakref.finalize(ref, self._released.append, ref.id).atexit = False
        return ref.id

    def _hold_inputs(self, ref: ObjectRef) -> None:
        if ref.attachment is not None:
            for given in ref.attachment.inputs:
                self._dependency(given)

    def _attachment(self, ref: ObjectRef) -> Attachment:
        if ref.attachment is None:
            ref.attachment = Attachment()
        return ref.attachment

    def _attach(self, ref: ObjectRef, inputs: tuple[ObjectRef, ...], siblings: tuple[ObjectRef, ...]) -> None:
        if inputs or siblings:
            attachment = self._attachment(ref)
            attachment.inputs, attachment.siblings = inputs, siblings


def _first_failed(refs: Iterable[ObjectRef]) -> Result | None:
    return next((ref.answer for ref in refs if ref.answer is not None and ref.answer.outcome is not Outcome.OK), None)


def _others(result: Result, count: int) -> Sequence[bytes]:
    """The values after the first; an exception is the answer to each."""
    return result.more if result.outcome is Outcome.OK else (result.value,) * count
