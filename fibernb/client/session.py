"""A session with one cluster: what everything else in the client stands on.

It puts together the bookkeeping (`fibernb.client.books`), what arrives (`fibernb.client.inbox`) and the link
(`fibernb.client.line`). Every method may be called from any thread.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import msgspec

from fibernb import serialize
from fibernb.client.books import Books
from fibernb.client.dialing import Connector
from fibernb.client.direct import DirectCalls
from fibernb.client.entries import MAX_ARGUMENT_BYTES, Entries, checked
from fibernb.client.inbox import Inbox
from fibernb.client.items import Stream
from fibernb.client.line import Line
from fibernb.client.makers import Makers, check_own
from fibernb.client.nested import Lending
from fibernb.client.refs import Group, ObjectRef, run_callbacks
from fibernb.client.requests import ANSWER_TIMEOUT_S, Requests
from fibernb.client.streams import ObjectRefGenerator
from fibernb.core.messages import (
    Autoscale,
    Blocked,
    Cancel,
    DefineFunction,
    Goodbye,
    InterruptRanks,
    KillActor,
    Message,
    RemoveGroup,
    RestartSeats,
    Said,
    Scale,
    SeatsChanged,
    SignalActor,
    State,
    StateRequest,
    Status,
    StatusRequest,
    Sync,
)
from fibernb.engine import context
from fibernb.errors import FibernbError, NotConnected
from fibernb.model import (
    DEFAULT_OPTIONS,
    STREAMING,
    BlockId,
    ObjectId,
    Rank,
    Result,
    TaskId,
    TaskOptions,
)
from fibernb.serialize import Packed, references

ENDINGS: Final = (KillActor, SignalActor, RestartSeats, InterruptRanks, Scale, Autoscale, RemoveGroup)
"""After these an engine may be about to end, so that a call which is sent straight to it would come too early."""

_sessions: Final[weakref.WeakSet[Session]] = weakref.WeakSet()


class Session:
    """A link to one cluster with everything that is under way on it.

    Parameters
    ----------
    connector : the way to the hub.
    current_task : gives the task that submits, in an engine; None in a client proper.
    """

    def __init__(self, connector: Connector, current_task: Callable[[], TaskId | None] | None = None) -> None:
        self.name = connector.name
        self.directory = connector.directory
        self.current_task = current_task
        self.foreign = False  # made by the process that this one was forked from
        self.books = Books(self, self._rouse)
        self.entries = Entries(self, self.books)
        self._requests = Requests(self.name, self.tell, self._wait_for_reply)
        self.inbox = Inbox(self.books, self._requests, self._end)
        self.lending = Lending(self._tell_if_open)
        self.line = Line(connector, self.books, self.inbox, self._lent)
        opened = self.line.open()
        self.client = opened.client
        self.welcome = opened.welcome
        self.store = connector.store(opened.client)
        self.entries.begin(opened.client)
        self._direct = DirectCalls(
            self.books, self.inbox, self.line.turns, self.line.deferral, self._requests.number, connector.dial_engine
        )
        makers = Makers(self, self.entries, self._requests)
        self.create_actor = makers.create_actor
        self.find_actor = makers.find_actor
        self.kill_actor = makers.kill_actor
        self.signal_actor = makers.signal_actor
        self.create_group = makers.create_group
        self.remove_group = makers.remove_group
        _sessions.add(self)
        engine = context.current()
        if current_task is not None and engine is not None:
            engine.settle = self.settle_references
            engine.send_calls = self._send_calls
            engine.sent = lambda: (self.books.sent, self.books.unsent)

    @property
    def over(self) -> FibernbError | None:
        """Why the session has ended; None while it lives."""
        return self.line.over

    def _end(self, error: NotConnected) -> None:
        self.line.end(error)

    def _rouse(self) -> None:
        if not self.foreign:
            self.line.warm_up()

    # ---- tasks -------------------------------------------------------------------------------------------

    def submit(self, group: Group, packed: Packed) -> ObjectRef:
        """Submit a call without inputs that returns one value. It leaves with the next batch."""
        args, blocks, refs = packed
        if blocks or refs or len(args) > MAX_ARGUMENT_BYTES:
            return self.submit_general(group, packed, ())[0]
        ref, full = self.entries.enter(group, args)
        if full:
            self.line.flush()
        elif self.line.cold:
            self.line.warm_up()
        if self.line.over is not None:
            self._fail_late()
        return ref

    def submit_many(self, group: Group, arguments: Sequence[bytes]) -> list[ObjectRef]:
        """As `submit` for a batch of calls, which leaves now."""
        refs = self.entries.enter_many(group, arguments) if arguments else []
        self.line.flush()
        self._fail_late()
        return refs

    def submit_general(self, group: Group, packed: Packed, inputs: Sequence[ObjectRef]) -> list[ObjectRef]:
        """Submit a call that refers to other values, or returns several: a reference for each that it returns."""
        refs, full = self.entries.enter_general(group, checked(packed), inputs)
        self.leave_soon(full)
        return refs[: group.options.num_returns]

    def submit_stream(self, group: Group, packed: Packed, inputs: Sequence[ObjectRef]) -> ObjectRefGenerator:
        """Submit a call of a generator: the references of its items, as they come."""
        stream, full = self.entries.enter_stream(group, checked(packed), inputs)
        generator = ObjectRefGenerator(stream, self)
        self.leave_soon(full)
        return generator

    def submit_call(
        self, actor: ObjectRef, group: Group, packed: Packed, inputs: Sequence[ObjectRef]
    ) -> list[ObjectRef] | ObjectRefGenerator:
        """Submit a call of an actor's method; calls of one caller run in order.

        Consecutive calls of one group to one actor travel together. Gives a reference for each value that the call
        returns, or the generator of a streaming one.
        """
        check_own(self, actor)
        bound = group.bound_to(actor.id)
        if group.options.num_returns == 1 and not inputs:
            return [self.submit(bound, packed)]
        if group.options.num_returns == STREAMING:
            return self.submit_stream(bound, packed, inputs)
        return self.submit_general(bound, packed, inputs)

    def submit_pinned(
        self,
        function: DefineFunction,
        ranks: Sequence[Rank],
        args: list[bytes],
        *,
        options: TaskOptions = DEFAULT_OPTIONS,
        inputs: Sequence[ObjectRef] = (),
        on_said: Callable[[Said], object] | None = None,
    ) -> list[ObjectRef]:
        """One call on each of the ranks. ``args``: one pickle for all, or one for each rank.

        ``on_said`` is told what the calls write, show and report, in order, until they are done.
        """
        for data in args:
            checked(Packed(data))

        def before(refs: list[ObjectRef]) -> None:
            if on_said is not None:
                self.inbox.listen([ref.id for ref in refs], on_said)

        refs = self.entries.enter_pinned(function, ranks, args, options, self.parent(), inputs, before)
        self.leave_soon()
        return refs

    def define(self, function: DefineFunction) -> None:
        """Make a function known to the hub, once."""
        self.books.define(function)

    def parent(self) -> TaskId | None:
        """The task that submits, when this is an engine."""
        return None if self.current_task is None else self.current_task()

    def cancel(self, refs: Iterable[ObjectRef], force: bool = False, recursive: bool = True) -> None:
        """Stop the tasks of these references, as far as they are not done."""
        tasks = [ref.id for ref in refs if not ref.done()]
        if tasks:
            self.tell(Cancel(tasks=tasks, force=force, recursive=recursive))

    def leave_soon(self, full: bool = False) -> None:
        """Something has been entered: it goes at once, if there is much of it, or soon."""
        if full:
            self.line.flush()
        self.line.warm_up()
        self._fail_late()

    def _send_calls(self) -> None:
        """Return when all that was submitted has left, be it that another thread is just sending it."""
        if self.books.unsent or self.line.is_sending:
            self.line.flush()

    def _fail_late(self) -> None:
        """What was submitted after the end of the session fails as well."""
        if self.line.over is not None:
            self.inbox.fail(self.line.over)
            self.inbox.call_back()

    # ---- objects -----------------------------------------------------------------------------------------

    def put(self, value: Any) -> ObjectRef:
        """Give a value a reference. Large ones go to the object store, once. Raises `StoreFull`."""
        ref = self.entries.put(checked(serialize.pack(value, "value", self.store)))
        self.line.warm_up()
        return ref

    def new_ids(self, count: int) -> ObjectId:
        """The first of so many object ids that nobody else has."""
        return self.entries.new_ids(count)

    def borrow(self, id_: ObjectId) -> ObjectRef:
        """The reference to an object of this cluster, whoever made it. The hub hears of it soon."""
        ref = self.books.borrow(id_)
        self.line.warm_up()
        return ref

    def share(self, ref: ObjectRef) -> None:
        """The reference leaves inside of a value: keep what it stands for where others can get it."""
        if references.note(ref.id):
            self.books.lend(ref, parts=self.current_task is not None)
        else:
            self.books.share(ref)
            self.line.warm_up()

    def settle_references(self) -> None:
        """Return when the hub knows of all references that are held here, or have left inside of values.

        Those that have left are held for a while longer, so that this outlasts the way of the values.
        """
        with self.books.mutex:
            parting = self.books.values.send_parting()
        if parting or self.books.holdings.unconfirmed:
            self.settle()

    def settle(self) -> None:
        """Return when the hub has heard of everything that was submitted, and of all references that are held here."""
        with self.books.mutex:
            told = self.books.holdings.unconfirmed
        self._requests.ask(lambda request: Sync(request=request), None)
        with self.books.mutex:
            self.books.holdings.confirm(told)

    # ---- answers -----------------------------------------------------------------------------------------

    def wait(self, done: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Take in what arrives until ``done()``; False after ``timeout_s``. A task that waits lends its seat."""
        task = None if self.current_task is None else self._lender()
        if task is None or done():
            return self.line.wait(done, timeout_s)
        return self.lending.wait(self.line.wait, task, done, timeout_s)

    def call_directly(self, ref: ObjectRef, timeout_s: float | None) -> bool:
        """Have the engine itself answer a call that is waited for, if this can be; whether it has. Not for tasks, which
        lend their seats while they wait.
        """
        if self.foreign or self.current_task is not None or self.line.over is not None:
            return False
        return self._direct.call(ref, timeout_s)

    def waiting(self) -> AbstractContextManager[object]:
        """A context in which the running task waits, and lends its seat."""
        task = self._lender()
        return nullcontext() if task is None else self.lending.lent(task)

    def _lender(self) -> TaskId | None:
        """The task whose cpus can be lent. Those of an actor that does other things meanwhile cannot."""
        if self.current_task is None:
            return None
        engine = context.current()
        is_shared = engine is not None and engine.actor and not engine.one_by_one
        return None if is_shared else self.current_task() or None

    def _wait_for_reply(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        return self.line.wait(done, timeout_s)

    def _lent(self) -> list[Message]:
        return [Blocked(task=task) for task in self.lending.tasks]

    def flush(self) -> None:
        """Send what waits to be sent, now."""
        self.line.flush()

    def arrivals(self) -> int:
        """How many results have arrived so far; a number that only grows."""
        return self.books.arrivals

    def watch(self, ref: ObjectRef, callback: Callable[[ObjectRef], object]) -> None:
        """Call ``callback(ref)`` once the reference is answered, at once if it is."""
        if not self.books.watch(ref, callback):
            run_callbacks(ref, [callback])

    def watch_stream(self, stream: Stream, callback: Callable[[ObjectRef], object]) -> None:
        """Call back at the next item of a stream or at its end, at once if that is here."""
        if not self.books.watch_stream(stream, callback):
            run_callbacks(stream.end, [callback])

    def consume(self, stream: Stream) -> None:
        """Items of a stream have been taken: its engine may go on."""
        self.books.consume(stream)
        self.line.warm_up()

    def drop_stream(self, task: TaskId) -> None:
        """Nobody wants more of a stream. Called from wherever its generator ends; takes no lock."""
        self.books.streams.drop(task)
        self._rouse()

    def fetch(self, *refs: ObjectRef) -> None:
        """See to it that references which came from another process get their answers here."""
        if self.books.fetch(refs):
            self.line.warm_up()
            self._fail_late()

    def fetch_again(self, ref: ObjectRef, answer: Result, lost: Sequence[BlockId]) -> None:
        """The memory of a value is lost: have it made again."""
        self.books.fetch_again(ref, answer, lost)
        self.line.warm_up()
        self._fail_late()

    # ---- the cluster -------------------------------------------------------------------------------------

    def tell(self, message: Message, keepers: Iterable[ObjectRef] = ()) -> None:
        """Send a message that has no answer. Raises `NotConnected` when the session has ended.

        ``keepers``: references to the objects that a `Remember` stands in; they are kept as long as that counts.
        """
        if self.line.over is not None:
            raise NotConnected(str(self.line.over)) from self.line.over
        if isinstance(message, ENDINGS):
            self._direct.forget()
        self.books.send(message, keepers)
        self.line.flush()

    def _tell_if_open(self, message: Message) -> None:
        if self.line.over is None:
            self.tell(message)

    def ask_status(self) -> None:
        """Ask the hub for its state without waiting; the answer will be ``inbox.status``."""
        self.tell(StatusRequest(request=self._requests.number()))

    def status(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Status:
        """The state of the cluster, as the hub tells it now."""
        status: Status = self._requests.ask(lambda request: StatusRequest(request=request), timeout_s)
        return status

    def state(
        self, kind: str, limit: int = 10_000, where: Mapping[str, str] | None = None
    ) -> tuple[list[dict[str, Any]], int]:
        """Rows of what there is, or was, and how many there are in all: see `fibernb.core.messages.StateRequest`."""
        answer: State = self._requests.ask(
            lambda request: StateRequest(request=request, kind=kind, limit=limit, where=dict(where or {}))
        )
        return msgspec.json.decode(answer.rows, type=list[dict[str, Any]]), answer.total

    @property
    def seats(self) -> SeatsChanged | None:
        """What the hub last said about its seats."""
        return self.inbox.seats

    def close(self, stop: bool = False) -> None:
        """Leave the cluster for good. ``stop``: it ends, unless others are attached."""
        self.line.close(Goodbye(stop=stop))
        self._direct.forget()

    def forsake(self) -> None:
        """In a forked child: this session belongs to the parent, so every use is an error from now on."""
        self.foreign = True
        self.books.mutex = ForeignLock()  # type: ignore[assignment]
        self.line.forsake()


class ForeignLock:
    """Stands for the lock of a session that belongs to the parent process: whoever wants it is told so."""

    def __enter__(self) -> None:
        raise NotConnected(
            "this reference or cluster was made before this process was forked and belongs to the parent: "
            "submit the work again here, or let the parent get the value"
        )

    def __exit__(self, *_: object) -> None:
        """Never reached."""


def _forsake_all() -> None:
    for session in list(_sessions):
        session.forsake()


os.register_at_fork(after_in_child=_forsake_all)


def define(function: Callable[..., Any], name: str = "") -> DefineFunction:
    """The message that makes a function known."""
    digest, code = serialize.dumps_function(function)
    return DefineFunction(digest=digest, code=code, name=name or getattr(function, "__name__", "function"))
