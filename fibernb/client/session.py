"""A session with one cluster: what everything else in the client stands on.

It puts together the bookkeeping (`fibernb.client.books`), what arrives (`fibernb.client.inbox`) and the link
(`fibernb.client.line`). Every method may be called from any thread.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from fibernb import serialize
from fibernb.client.books import Books
from fibernb.client.dialing import Connector
from fibernb.client.identity import identity
from fibernb.client.inbox import Inbox
from fibernb.client.line import Line
from fibernb.client.nested import wait_in_task
from fibernb.client.refs import Group, ObjectRef, run_callbacks
from fibernb.core.messages import (
    Cancel,
    DefineFunction,
    Goodbye,
    Message,
    Said,
    SeatsChanged,
    Status,
    StatusRequest,
)
from fibernb.errors import ClusterError, FibernbError, NotConnected, SerializationError
from fibernb.model import DEFAULT_OPTIONS, Rank, TaskId, TaskOptions

STATUS_TIMEOUT_S: Final = 30.0
MAX_ARGUMENT_BYTES: Final = 2**30 - 2**16  # leaves room in a message for what goes with it

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
        self.current_task = current_task
        self.foreign = False  # made by the process that this one was forked from
        self.books = Books(self)
        self.inbox = Inbox(self.books, self._end)
        self.line = Line(connector, self.books, self.inbox)
        self._requests = itertools.count(1)
        opened = self.line.open()
        self.client = opened.client
        self.welcome = opened.welcome
        self.books.begin(opened.client)
        _sessions.add(self)

    @property
    def over(self) -> FibernbError | None:
        """Why the session has ended; None while it lives."""
        return self.line.over

    def _end(self, error: NotConnected) -> None:
        self.line.end(error)

    # ---- tasks -------------------------------------------------------------------------------------------

    def submit(self, group: Group, args: bytes) -> ObjectRef:
        """Submit a call without inputs that returns one value. It leaves with the next batch."""
        _check_size(args)
        ref, full = self.books.enter(group, args)
        if full:
            self.line.flush()
        elif self.line.cold:
            self.line.warm_up()
        if self.line.over is not None:
            self._fail_late()
        return ref

    def submit_many(self, group: Group, arguments: Sequence[bytes]) -> list[ObjectRef]:
        """As `submit` for a batch of calls, which leaves now."""
        refs = self.books.enter_many(group, arguments) if arguments else []
        self.line.flush()
        self._fail_late()
        return refs

    def submit_general(self, group: Group, args: bytes, inputs: Sequence[ObjectRef]) -> list[ObjectRef]:
        """Submit a call that refers to other values, or returns several: a reference for each that it returns."""
        _check_size(args)
        refs, full = self.books.enter_general(group, args, inputs)
        if full:
            self.line.flush()
        self.line.warm_up()
        self._fail_late()
        return refs[: group.options.num_returns]

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
            _check_size(data)

        def before(refs: list[ObjectRef]) -> None:
            if on_said is not None:
                self.inbox.listen([ref.id for ref in refs], on_said)

        refs = self.books.enter_pinned(function, ranks, args, options, self.parent(), inputs, before)
        self.line.warm_up()
        self._fail_late()
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

    def put(self, value: Any) -> ObjectRef:
        """Give a value a reference."""
        data = serialize.dumps(value)
        _check_size(data)
        return self.books.put(data)

    # ---- answers -----------------------------------------------------------------------------------------

    def wait(self, done: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Take in what arrives until ``done()``; False after ``timeout_s``."""
        if self.current_task is None or done():
            return self.line.wait(done, timeout_s)
        return wait_in_task(self.line.wait, self.status, done, timeout_s)

    def flush(self) -> None:
        """Send what waits to be sent, now."""
        self.line.flush()

    def watch(self, ref: ObjectRef, callback: Callable[[ObjectRef], object]) -> None:
        """Call ``callback(ref)`` once the reference is answered, at once if it is."""
        if not self.books.watch(ref, callback):
            run_callbacks(ref, [callback])

    def fetch(self, ref: ObjectRef) -> None:
        """See to it that a reference which came from another process gets its answer here."""
        with self.books.mutex:
            if self.books.knows(ref):
                return
            self.books.ledger.pending[ref.id] = ref
            self.define(IDENTITY)
            group = Group(IDENTITY.digest, TaskOptions(name="get"), self.parent())
            args, _ = serialize.dumps_call((ref,), {}, ObjectRef)
        (copy,) = self.submit_general(group, args, [ref])
        self.watch(copy, lambda copy: self._adopt(ref, copy))

    def _adopt(self, ref: ObjectRef, copy: ObjectRef) -> None:
        if copy.answer is not None:
            self.inbox.adopt(ref, copy.answer)

    def share(self, ref: ObjectRef) -> None:
        """The reference leaves inside of a value: keep what it stands for where others can get it."""
        self.books.share(ref)

    def _fail_late(self) -> None:
        """What was submitted after the end of the session fails as well."""
        if self.line.over is not None:
            self.inbox.fail(self.line.over)
            self.inbox.call_back()

    # ---- the cluster -------------------------------------------------------------------------------------

    def tell(self, message: Message) -> None:
        """Send a message that has no answer. Raises `NotConnected` when the session has ended."""
        if self.line.over is not None:
            raise NotConnected(str(self.line.over)) from self.line.over
        self.books.send(message)
        self.line.flush()

    def ask_status(self) -> None:
        """Ask the hub for its state without waiting; the answer will be ``inbox.status``."""
        self.tell(StatusRequest(request=next(self._requests)))

    def status(self, timeout_s: float = STATUS_TIMEOUT_S) -> Status:
        """The state of the cluster, as the hub tells it now."""
        request, statuses = next(self._requests), self.inbox.statuses
        statuses[request] = None
        try:
            self.tell(StatusRequest(request=request))
            self.line.wait(lambda: statuses[request] is not None, timeout_s)
        finally:
            status = statuses.pop(request)
        if status is None:
            raise ClusterError(f"the hub of cluster {self.name} has not told its status within {timeout_s:g} s")
        return status

    @property
    def seats(self) -> SeatsChanged | None:
        """What the hub last said about its seats."""
        return self.inbox.seats

    def close(self, stop: bool = False) -> None:
        """Leave the cluster for good. ``stop``: it ends, unless others are attached."""
        self.line.close(Goodbye(stop=stop))

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


def _check_size(data: bytes) -> None:
    if len(data) > MAX_ARGUMENT_BYTES:
        raise SerializationError(
            f"the arguments take {len(data):,} bytes, more than the {MAX_ARGUMENT_BYTES:,} that a message may have: "
            "pass smaller parts, or let the task read the data itself"
        )


def _forsake_all() -> None:
    for session in list(_sessions):
        session.forsake()


os.register_at_fork(after_in_child=_forsake_all)


def define(function: Callable[..., Any], name: str = "") -> DefineFunction:
    """The message that makes a function known."""
    digest, code = serialize.dumps_function(function)
    return DefineFunction(digest=digest, code=code, name=name or getattr(function, "__name__", "function"))


IDENTITY: Final = define(identity, "get")
