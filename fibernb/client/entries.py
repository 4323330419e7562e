"""How calls and objects get into the books: ids, references, and the messages that tell the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from fibernb import serialize
from fibernb.client.books import Books
from fibernb.client.items import Stream
from fibernb.client.ledger import portions
from fibernb.client.refs import Group, ObjectRef, Owner, Pinned, attach, attachment_of
from fibernb.core.messages import DefineFunction, Message, SubmitPinned
from fibernb.errors import SerializationError
from fibernb.model import (
    STREAM_IDS,
    Call,
    ClientId,
    ObjectId,
    Outcome,
    Rank,
    Result,
    TaskId,
    TaskOptions,
    first_id,
)
from fibernb.serialize import Packed

MAX_ARGUMENT_BYTES: Final = 2**30 - 2**16  # leaves room in a message for what goes with it


class Entries:
    """Enters what a session submits and makes.

    Parameters
    ----------
    owner : the session, which references hold on to.
    books : where it is entered, under their lock.
    """

    def __init__(self, owner: Owner, books: Books) -> None:
        self._owner = owner
        self._books = books
        self._pending = books.ledger.pending
        self._outbox = books.outbox
        self._values = books.values
        self._next_id = 0

    def begin(self, client: ClientId) -> None:
        """Number tasks and objects as this client's."""
        self._next_id = first_id(client) + 1

    def new_ids(self, count: int) -> ObjectId:
        """The first of so many ids that nobody else has."""
        with self._books.mutex:
            first = self._next_id
            self._next_id = first + count
            return first

    # ---- calls -------------------------------------------------------------------------------------------

    def enter(self, group: Group, args: bytes) -> tuple[ObjectRef, bool]:
        """A call without inputs; with it, whether it is time to send."""
        with self._books.mutex:
            id_ = self._next_id
            self._next_id = id_ + 1
            call = Call(id_, args)
            ref = ObjectRef(id_, self._owner, group, call)
            full = self._outbox.add_call(group, call)
            self._pending[id_] = ref
            return ref, full

    def enter_many(self, group: Group, arguments: Sequence[bytes]) -> list[ObjectRef]:
        """Calls without inputs that travel in one message."""
        with self._books.mutex:
            first, owner = self._next_id, self._owner
            self._next_id = first + len(arguments)
            calls = [Call(id_, args) for id_, args in enumerate(arguments, first)]
            refs = [ObjectRef(call.id, owner, group, call) for call in calls]
            self._outbox.add_batch(group, calls)
            self._pending.update(zip(range(first, self._next_id), refs, strict=True))
            return refs

    def enter_general(
        self,
        group: Group,
        packed: Packed,
        inputs: Sequence[ObjectRef],
        before: Callable[[list[ObjectRef]], object] | None = None,
    ) -> tuple[list[ObjectRef], bool]:
        """A call that may have inputs and may return several values: a reference for each, the first one's at least.

        ``before`` sees the references before anything can be answered.
        """
        with self._books.mutex:
            count = max(1, group.options.num_returns)
            first = self.new_ids(count)
            refs = [ObjectRef(first + offset, self._owner, group) for offset in range(count)]
            if before is not None:
                before(refs)
            return refs, self._enter(group, packed, inputs, refs)

    def enter_stream(self, group: Group, packed: Packed, inputs: Sequence[ObjectRef]) -> tuple[Stream, bool]:
        """A call of a generator."""
        with self._books.mutex:
            self._next_id = -(-self._next_id // STREAM_IDS) * STREAM_IDS
            end = ObjectRef(self.new_ids(STREAM_IDS), self._owner, group)
            attachment_of(end)  # so that the books look at it when it ends
            stream = self._books.streams.open(end)
            full = self._enter(group, packed, inputs, [end])
            if end.answer is not None:
                self._books.streams.end(end.id)
            return stream, full

    def _enter(self, group: Group, packed: Packed, inputs: Sequence[ObjectRef], refs: list[ObjectRef]) -> bool:
        args, inputs = self._stowed(packed, inputs)
        deps = tuple(self._values.depend(ref) for ref in inputs)
        attach(refs[0], (*inputs, *self._values.contained(packed.refs)), tuple(refs[1:]))
        failed = _first_failed(inputs)
        if failed is not None:
            for ref in refs:
                ref.answer = Result(ref.id, failed.value, failed.outcome)
            return False
        call = refs[0].call = Call(refs[0].id, args, deps, packed.refs)
        self._pending.update((ref.id, ref) for ref in refs)
        return self._outbox.add_call(group, call)

    def _stowed(self, packed: Packed, inputs: Sequence[ObjectRef]) -> tuple[bytes, Sequence[ObjectRef]]:
        """Arguments as they travel: large ones become an object of their own, which is one more input."""
        if not packed.blocks:
            return packed.data, inputs
        return serialize.stowed_call(len(inputs)), [*inputs, self.put(packed)]

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
        with self._books.mutex:
            self._books.define(function)
            first = self.new_ids(len(ranks))
            deps = tuple(self._values.depend(ref) for ref in inputs)
            refs = []
            for offset, rank in enumerate(ranks):
                call = Call(first + offset, args[offset if len(args) > 1 else 0], deps)
                ref = ObjectRef(call.id, self._owner, Pinned(function.digest, options, parent, rank), call)
                attach(ref, tuple(inputs), ())
                refs.append(ref)
            before(refs)
            self._pending.update((ref.id, ref) for ref in refs)
            for part in portions(args) if len(args) > 1 else [slice(len(ranks))]:
                self._outbox.add(
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

    # ---- objects -----------------------------------------------------------------------------------------

    def put(self, packed: Packed) -> ObjectRef:
        """A reference to a value. The hub gets a small one with the first call that refers to it, others now."""
        with self._books.mutex:
            ref = ObjectRef(self.new_ids(1), self._owner)
            ref.answer = Result(ref.id, packed.data, Outcome.OK, (), packed.blocks, packed.refs)
            if packed.blocks or packed.refs:
                self._values.contained(packed.refs)
                self._values.depend(ref)
            return ref

    def take_inputs(
        self, packed: Packed, inputs: Sequence[ObjectRef]
    ) -> tuple[bytes, tuple[ObjectId, ...], list[ObjectRef]]:
        """For a message that makes an object: its arguments, their ids, and what is to be kept with it."""
        with self._books.mutex:
            args, inputs = self._stowed(packed, inputs)
            deps = tuple(self._values.depend(ref) for ref in inputs)
            return args, deps, [*inputs, *self._values.contained(packed.refs)]

    def make(self, ref: ObjectRef, origin: Message, keep: Iterable[ObjectRef] = ()) -> None:
        """An object that a message makes: an actor, or a placement group. It ends when nobody holds it.

        ``keep``: what the message refers to; a new hub must have that again.
        """
        with self._books.mutex:
            self._books.holdings.hold(ref, origin, tuple(keep))
            self._books.send(origin)

    def replace_origin(self, ref: ObjectRef, origin: Message) -> None:
        """What a new hub is to be told of an object that a message makes."""
        with self._books.mutex:
            self._books.holdings.replace(ref.id, origin)

    def found(self, actor: ObjectId) -> None:
        """The hub has found an actor, and keeps it for us."""
        with self._books.mutex:
            self._books.holdings.found(actor)

    def forgo(self, ref: ObjectRef) -> None:
        """The object was not made after all."""
        with self._books.mutex:
            self._books.holdings.forgo(ref.id)


def _first_failed(refs: Iterable[ObjectRef]) -> Result | None:
    return next((ref.answer for ref in refs if ref.answer is not None and ref.answer.outcome is not Outcome.OK), None)


def checked(packed: Packed) -> Packed:
    """Arguments that fit into a message, as they were packed. Raises `SerializationError` for others."""
    if len(packed.data) > MAX_ARGUMENT_BYTES:
        raise SerializationError(
            f"the arguments take {len(packed.data):,} bytes, more than the {MAX_ARGUMENT_BYTES:,} that a message may "
            "have: pass smaller parts, or let the task read the data itself"
        )
    return packed
