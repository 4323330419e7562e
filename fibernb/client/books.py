"""The bookkeeping of a session behind one lock: what is unanswered, what is unsent, what the hub holds for us.

The lock is held for moments only: never while something is sent, received or called back. It is reentrant, and the end
of a reference takes no lock at all, because the garbage collector may run user code anywhere.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence

from fibernb import serialize
from fibernb.client.holding import Holdings
from fibernb.client.items import Stream, Streams
from fibernb.client.ledger import Ledger, Outbox
from fibernb.client.receipts import Receipts
from fibernb.client.refs import Due, ObjectRef, Owner, attachment_of
from fibernb.client.values import Values
from fibernb.core.messages import Cancel, DefineFunction, Deliver, Message
from fibernb.model import BlockId, ObjectId, Outcome, Result


class Books:
    """Who waits for what. `fibernb.client.entries` enters what is submitted.

    Parameters
    ----------
    owner : the session, which references hold on to.
    rouse : called, from wherever a reference ends, when something is to be sent soon.
    """

    def __init__(self, owner: Owner, rouse: Callable[[], object]) -> None:
        self.mutex = threading.RLock()
        self.ledger = Ledger()
        self.outbox = Outbox()
        self.holdings = Holdings(rouse)
        self.values = Values(owner, self.outbox, self.holdings)
        self.streams = Streams()
        self.receipts = Receipts()
        self.sent = 0  # messages
        self.arrivals = 0  # how many results have come so far
        self._owner = owner

    # ---- references --------------------------------------------------------------------------------------

    def share(self, ref: ObjectRef) -> None:
        """See `Values.share`."""
        with self.mutex:
            self.values.share(ref)

    def lend(self, ref: ObjectRef, parts: bool) -> None:
        """See `Values.lend`."""
        with self.mutex:
            self.values.lend(ref, parts)

    def borrow(self, id_: ObjectId) -> ObjectRef:
        """The reference to an object that somebody else may have made."""
        with self.mutex:
            ref = self.ledger.pending.get(id_) or self.holdings.find(id_)
            if ref is None:
                ref = ObjectRef(id_, self._owner)
                self.holdings.borrow(ref)
            return ref

    def fetch(self, refs: Iterable[ObjectRef]) -> bool:
        """See to it that the answers of references will come; False when nothing has to be done for that."""
        asked = False
        with self.mutex:
            pending = self.ledger.pending
            for ref in refs:
                # in this order: the reader, who takes no lock, books an answer in the opposite one
                if ref.call is None and ref.id not in pending and ref.answer is None:
                    self.holdings.fetch(ref)
                    asked = True
        return asked

    def fetch_again(self, ref: ObjectRef, answer: Result, lost: Iterable[BlockId]) -> None:
        """The blocks of this answer are gone: have the value made again."""
        with self.mutex:
            if ref.answer is answer:
                ref.answer = None
                self.holdings.fetch(ref, lost)

    def watch(self, ref: ObjectRef, callback: Callable[[ObjectRef], object]) -> bool:
        """Call back when the reference is answered; False when it is answered already."""
        with self.mutex:
            if not ref.done():
                callbacks = attachment_of(ref).callbacks
                callbacks.append(callback)
                if not ref.done():
                    return True
                callbacks.remove(callback)  # answered just now: the reader may not have seen it
        return False

    def watch_stream(self, stream: Stream, callback: Callable[[ObjectRef], object]) -> bool:
        """Call back at the next item, or at the end; False when that is here already."""
        with self.mutex:
            if not stream.has_news():
                stream.callbacks.append(callback)
                if not stream.has_news() or callback not in stream.callbacks:
                    return True
                stream.callbacks.remove(callback)
        return False

    def consume(self, stream: Stream) -> None:
        """The engine of a stream is to hear how many items have been taken."""
        with self.mutex:
            self.streams.consume(stream)

    # ---- what goes out -----------------------------------------------------------------------------------

    def define(self, function: DefineFunction) -> None:
        """Make a function known to the hub, once."""
        with self.mutex:
            if function.digest not in self.ledger.functions:
                self.ledger.functions[function.digest] = function
                self.outbox.add(function)

    def send(self, message: Message, keepers: Iterable[ObjectRef] = ()) -> None:
        """Put a message behind everything that waits to be sent. ``keepers``: as for `Ledger.note`."""
        with self.mutex:
            self._push()
            if isinstance(message, Cancel):
                self.outbox.come_back()
            self.ledger.note(message, keepers)
            self.outbox.add(message)

    def outgoing(self) -> list[Message]:
        """What is to be sent now."""
        with self.mutex:
            self._push()
            messages = self.outbox.take()
            self.sent += len(messages)
            if self.receipts.due():
                messages.append(self.receipts.take())
            return messages

    def _push(self) -> None:
        """Put into the outbox what has come up since this was last done."""
        if self.values.part_at < math.inf:
            self.values.part()
        if self.holdings.news or self.streams.news:
            for message in (*self.holdings.messages(), *self.streams.messages()):
                self.ledger.note(message)
                self.outbox.add(message)

    @property
    def has_news(self) -> bool:
        """Whether there is something to send that does not stand in the outbox yet."""
        return self.holdings.news or self.streams.news or self.values.have_parted()

    @property
    def unsent(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self.outbox) or self.has_news

    def wants_flush(self) -> bool:
        """Whether something waits to be sent now."""
        return self.unsent or self.receipts.due()

    def restart(self, fresh: bool, more: Iterable[Message] = ()) -> None:
        """A new link: what is sent first is everything that the hub may not know."""
        with self.mutex:
            self.outbox.come_back(begun=False)  # who reads has not sent it, since that is us
            for ref in list(self.ledger.pending.values()):
                if ref.attachment is not None:
                    for given in ref.attachment.inputs:
                        self.values.depend(given)
            self.receipts.restart()
            self.holdings.released()
            replay = self.ledger.replay(fresh, list(self.holdings.replay()))
            self.outbox.restart([*replay, *self.streams.replay(), *self.holdings.fetches(), *more])

    # ---- what comes in -----------------------------------------------------------------------------------

    def settle(self, deliver: Deliver) -> list[Due]:
        """Take results in; returns the callbacks that are due. What is known already is only acknowledged."""
        due = self._settle(deliver.results)
        self.receipts.note(deliver.sequence)
        return due

    def take_answer(self, result: Result) -> list[Due]:
        """Take in the answer of an engine to a call of ours; returns the callbacks that are due."""
        return self._settle([result])

    def fail(self, error: Exception) -> list[Due]:
        """Answer everything that is unanswered with an error."""
        value = serialize.dumps_error(error, "")
        with self.mutex:
            ids = [*self.ledger.pending, *self.holdings.fetching]
            return self._settle([Result(id_, value, Outcome.ERROR) for id_ in ids])

    def _settle(self, results: Sequence[Result]) -> list[Due]:
        due: list[Due] = []
        pending, shared = self.ledger.pending, self.values.shared
        for result in results:
            ref = pending.pop(result.id, None)
            if ref is None:
                due += self._settle_other(result)
                continue
            ref.answer = result
            ref.call = None
            if ref.attachment is not None or result.blocks or result.refs:
                due += self._settle_more(ref, result)
            if shared and result.id in shared:
                self._publish(ref)
        self.arrivals += len(results)
        return due

    def _settle_other(self, result: Result) -> list[Due]:
        """An answer to no call of ours: it was fetched, it is an item of a stream, or it is known already."""
        with self.mutex:
            stream = self.streams.of(result.id)
            if stream is not None and stream.is_new(result.id):
                ref = ObjectRef(result.id, self._owner, stream.end.group)
                ref.answer = result
                self.holdings.hold(ref)
                return stream.add(ref)
            self.holdings.ended(result)
            fetched = self.holdings.fetching.pop(result.id, None)
            if fetched is None:
                self._disown(result, is_held=self.streams.is_item(result.id))
                return []
            fetched.answer = result
            return self._settle_more(fetched, result)

    def _disown(self, result: Result, is_held: bool) -> None:
        """A result has come again after its references were dropped: the hub believes that we hold it once more.

        ``is_held``: even a plain one counts as held.
        """
        for part in (result, *result.more):
            if (is_held or part.blocks or part.refs) and not self.holdings.holds(part.id):
                self.holdings.disown(part.id)

    def _settle_more(self, ref: ObjectRef, result: Result) -> list[Due]:
        """A reference that is more than one to a plain value has its answer."""
        with self.mutex:
            if (result.blocks or result.refs) and not self.holdings.holds(ref.id):
                self.holdings.hold(ref)
            attachment = ref.attachment
            if attachment is None:
                return []
            callbacks, attachment.callbacks = attachment.callbacks, []
            attachment.inputs = ()
            due: list[Due] = [(ref, callbacks)] if callbacks else []
            due += self.streams.end(ref.id)
            self.arrivals += len(attachment.siblings)
            for sibling, answer in zip(attachment.siblings, _others(result, attachment.siblings), strict=False):
                sibling.answer = answer
                self.ledger.pending.pop(sibling.id, None)
                due += self._settle_more(sibling, answer)
                if sibling.id in self.values.shared:
                    self._publish(sibling)
            return due

    def _publish(self, ref: ObjectRef) -> None:
        """A reference that was shared has its answer: the hub is to have it as well."""
        with self.mutex:
            self.values.depend(ref)


def _others(result: Result, siblings: Sequence[ObjectRef]) -> Sequence[Result]:
    """The values after the first; an exception is the answer to each."""
    if result.outcome is Outcome.OK:
        return result.more
    return [Result(sibling.id, result.value, result.outcome) for sibling in siblings]
