"""Calls that go straight to an engine, past the hub.

Who waits for the only call that it has under way with an actor, or for a task while nothing else is to be sent, has no
use for a scheduler. After some such calls in a row the hub is asked which engine may have them (see
`fibernb.core.meeting`), that one is dialled, and from then on a call is sent there by the thread that waits for it. It
waits for the answer for `PATIENCE_S` at most. If that does not come, or tells that there is more to the call than a
small value, the hub is told of it after all, and everything goes its usual way; the engine knows the call by its id,
and does not run it twice.
"""

from __future__ import annotations

import select
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from fibernb.client.books import Books
from fibernb.client.inbox import Inbox
from fibernb.client.interrupts import Deferral
from fibernb.client.refs import ActorGroup, Group, ObjectRef
from fibernb.client.turns import Turns
from fibernb.core.messages import Meet, Met, Run
from fibernb.errors import FibernbError, NotConnected
from fibernb.model import ONE_CPU, Call, Digest, EngineId, ObjectId, Result, TaskOptions
from fibernb.transport import Link
from fibernb.wire import codec
from fibernb.wire.direct import Answered, AskHub, DoorIsOpen, DoorIsShut, from_door

PATIENCE_S: Final = 0.02
ASK_AFTER: Final = 8  # calls that somebody has waited for one at a time
ASK_AGAIN: Final = 500  # such calls after an answer that there is no engine
AVOIDED: Final = 200  # as often a function is not sent directly after this was of no use
MAX_WAYS: Final = 64  # engines that are known at a time
MAX_DIALS: Final = 100
MAX_BYTES: Final = 64 * 1024  # of arguments
FEW: Final = 16  # calls under way that are looked at, whether they stand in the way
ANY_SEAT: Final = 0

Dial: TypeAlias = Callable[[EngineId], Link]


class Way:
    """The way to one engine. ``opened``: it has let us in."""

    def __init__(self, engine: EngineId) -> None:
        self.engine = engine
        self.link: Link | None = None
        self.opened = False
        self.functions: set[Digest] = set()  # that it has the code of
        self.avoided: dict[Digest, int] = {}  # functions that are not sent this way, as often
        self._dials = 0
        self._closed = False
        self._poll = select.poll()

    def advance(self, dial: Dial, turns: Turns) -> None:
        """Get nearer to being let in, without waiting. Raises `NotConnected` when that will not be."""
        if self.link is None:
            self._dials += 1
            try:
                self.link = dial(self.engine)
            except NotConnected:
                if self._dials > MAX_DIALS:
                    raise
                return
            if self._closed:  # by another thread, just now
                self.link.close()
            self._poll.register(self.link.fileno(), select.POLLIN)
            self._poll.register(turns.woken, select.POLLIN)
        self.opened = any(isinstance(from_door.decode(data), DoorIsOpen) for data in self.link.receive(0))

    def send(self, run: Run) -> None:
        """Raises `Shut` when nobody is there any more to take it."""
        assert self.link is not None
        try:
            self.link.send(codec.encode(run))
        except NotConnected as error:
            raise Shut from error
        self.functions.add(run.function)

    def await_answer(self, call: Call, timeout_s: float, is_woken: Callable[[], bool]) -> Answered | AskHub | None:
        """What the engine says of a call; None if it says nothing in time, or ``is_woken`` tells of something else.

        Raises `Shut` if the call will not be run, `NotConnected` if it may have been.
        """
        assert self.link is not None
        link, timeout_ms = self.link, timeout_s * 1000
        while events := self._poll.poll(timeout_ms):
            if (len(events) > 1 or events[0][0] != link.fileno()) and is_woken():
                return None
            for data in link.receive(0):
                answer = from_door.decode(data)
                if isinstance(answer, Answered) and answer.result.id == call.id:
                    return answer
                if isinstance(answer, AskHub) and answer.task == call.id:
                    return answer
                if isinstance(answer, DoorIsShut):
                    raise Shut
        return None

    def is_of_use(self, function: Digest) -> bool:
        """Whether a function may be sent this way; asked once for each call."""
        left = self.avoided.get(function)
        if left is None:
            return True
        if left <= 1:
            del self.avoided[function]
        else:
            self.avoided[function] = left - 1
        return False

    def close(self) -> None:
        self._closed = True  # first: who is dialling looks at it afterwards
        if self.link is not None:
            self.link.close()

    def __del__(self) -> None:
        self.close()  # where the cluster has ended, nobody else does


class Shut(Exception):
    """The engine takes no more calls, and has not taken the last one."""


class DirectCalls:
    """Sends calls to engines. Safe to use from any thread; one call is under way at a time.

    Parameters
    ----------
    books, inbox, turns, deferral : of the session.
    request : gives numbers for requests.
    dial : opens a link to the door of an engine and says hello there, or raises `NotConnected` at once.
    """

    def __init__(
        self, books: Books, inbox: Inbox, turns: Turns, deferral: Deferral, request: Callable[[], int], dial: Dial
    ) -> None:
        self._books = books
        self._inbox = inbox
        self._turns = turns
        self._deferral = deferral
        self._request = request
        self._dial = dial
        self._approaching = threading.Lock()
        self._ways: OrderedDict[ObjectId, Way] = OrderedDict()  # by actor
        self._counts: dict[ObjectId, int] = {}  # of calls that might have been direct
        self._asked: dict[int, ObjectId] = {}  # requests
        inbox.on_met = self._take_met

    def call(self, ref: ObjectRef, timeout_s: float | None) -> bool:
        """Have an unanswered call of ours answered, if that is possible at once; whether it is."""
        group, call = ref.group, ref.call
        if group is None or call is None or ref.attachment is not None or (timeout_s is not None and timeout_s <= 0):
            return False
        key = _key_of(group, call) if self._books.outbox.holds_only(ref) else None
        if key is None:
            return False
        way = self._ways.get(key)
        if way is None:
            self._count(key)
            return False
        if not way.opened:
            self._approach(way, key)
            return False
        if not (way.is_of_use(group.function) and self._divert(ref, key, way.engine)):
            return False
        try:
            with self._deferral:
                answered = self._call_by(way, key, ref, group, call, timeout_s)
        finally:
            self._take_back(ref)
        if answered:
            self._inbox.call_back()
        return answered

    def forget(self) -> None:
        """Engines are about to end, or the session is over: nothing is sent to any without the hub's word."""
        with self._books.mutex:
            ways = list(self._ways.values())
            self._ways.clear()
        for way in ways:
            way.close()

    # ---- finding the way -----------------------------------------------------------------------------------

    def _count(self, key: ObjectId) -> None:
        """One more call that might have been direct: ask for an engine after some of them."""
        with self._books.mutex:
            count = self._counts[key] = self._counts.get(key, 0) + 1
            if count == ASK_AFTER:
                request = self._request()
                self._asked[request] = key
                self._books.send(Meet(request=request, actor=key))
            elif count > ASK_AGAIN:
                del self._counts[key]
            elif len(self._counts) > ASK_AGAIN:
                self._counts.clear()

    def _take_met(self, message: Met) -> None:
        with self._books.mutex:
            key = self._asked.pop(message.request, None)
            if key is None or not message.engine:
                return
            left = [self._ways.pop(key)] if key in self._ways else []
            self._ways[key] = Way(message.engine)
            if len(self._ways) > MAX_WAYS:
                left.append(self._ways.popitem(last=False)[1])
        for way in left:
            way.close()

    def _lose(self, key: ObjectId, way: Way) -> None:
        """There is no such way any more; ask for one when it seems worth while again."""
        with self._books.mutex:
            if self._ways.get(key) is way:
                del self._ways[key]
                self._counts.pop(key, None)
        way.close()

    # ---- going it ------------------------------------------------------------------------------------------

    def _approach(self, way: Way, key: ObjectId) -> None:
        if self._approaching.acquire(blocking=False):
            try:
                way.advance(self._dial, self._turns)
            except FibernbError:
                self._lose(key, way)
            finally:
                self._approaching.release()

    def _call_by(
        self, way: Way, key: ObjectId, ref: ObjectRef, group: Group, call: Call, timeout_s: float | None
    ) -> bool:
        """Send a call that was diverted and wait for its answer, as the one who reads for all."""
        if not self._turns.take_over():
            return False
        answer: Answered | AskHub | None = None
        begun = True
        try:
            if self._books.outbox.diverted is not ref:
                return False
            patience_s = PATIENCE_S if timeout_s is None else min(timeout_s, PATIENCE_S)
            way.send(self._run(way, group, call))
            answer = way.await_answer(call, patience_s, self._is_woken)
        except Shut:
            begun = False
            self._lose(key, way)
        except FibernbError:
            self._lose(key, way)
        finally:
            answered = self._conclude(ref, answer.result if isinstance(answer, Answered) else None, begun)
            self._turns.leave()
        if not isinstance(answer, Answered):
            way.avoided[group.function] = AVOIDED
        return answered

    def _is_woken(self) -> bool:
        """Whether the thread that waits, and has been woken, is to stop for that."""
        self._turns.clear()
        return self._deferral.noted

    def _divert(self, ref: ObjectRef, key: ObjectId, engine: EngineId) -> bool:
        """Take a call out of what is to be sent, if it is all of that, and all that its actor has of ours."""
        books = self._books
        with books.mutex:
            pending = books.ledger.pending
            if len(pending) > 1 and (len(pending) > FEW or _has_others(pending.values(), ref, key)):
                return False
            return books.outbox.diverted is None and not books.has_news and books.outbox.divert(ref, engine)

    def _run(self, way: Way, group: Group, call: Call) -> Run:
        code = None if group.function in way.functions else self._books.ledger.functions[group.function].code
        return Run(function=group.function, calls=[call], position=0, code=code, options=group.options)

    def _conclude(self, ref: ObjectRef, result: Result | None, begun: bool) -> bool:
        """The call has been answered, or is the hub's after all; whether it is answered."""
        books = self._books
        with books.mutex:
            if books.outbox.diverted is not ref:  # somebody has needed the hub to know of it
                return False
            if result is None or ref.answer is not None:
                books.outbox.come_back(begun=begun)
                return False
            books.outbox.diverted = None
            self._inbox.queue(books.take_answer(result))
            return True

    def _take_back(self, ref: ObjectRef) -> None:
        """If the call has not even been sent, it is the hub's."""
        books = self._books
        with books.mutex:
            if books.outbox.diverted is ref:
                books.outbox.come_back(begun=False)


def _key_of(group: Group, call: Call) -> ObjectId | None:
    """The actor of a call that might be direct, `ANY_SEAT` for a task, None if it cannot be."""
    if call.deps or call.refs or len(call.args) > MAX_BYTES or group.options.num_returns != 1 or group.begun_on:
        return None
    if type(group) is ActorGroup:
        return group.actor
    return ANY_SEAT if type(group) is Group and _needs_seat_only(group.options) else None


def _needs_seat_only(options: TaskOptions) -> bool:
    elsewhere = options.environment or options.placement or options.node or options.spread or options.max_calls
    return not elsewhere and options.resources == ONE_CPU


def _has_others(pending: Any, ref: ObjectRef, actor: ObjectId) -> bool:
    """Whether other calls of this actor are under way, or any that an engine may be asked for by the hub: it remembers
    only the last one of ours.
    """
    groups = (other.group for other in pending if other is not ref and other.group is not None)
    return any(group.key == actor or group.begun_on for group in groups)
