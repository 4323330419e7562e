"""References to values that tasks will have: the futures of FiberNB.

A reference that has its answer holds it as a pickle and unpickles it at every ``get``, so that two readers never share
a mutable value. What the session needs of a reference stands in plain slots, since there is one for every task.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol, TypeAlias

from fibernb import serialize
from fibernb.client.nested import check_turn
from fibernb.errors import GetTimeout, ObjectLost, TaskCancelled
from fibernb.model import BlockId, Call, Digest, EngineId, ObjectId, Outcome, Rank, Result, TaskId, TaskOptions

REMAKES: Final = 10  # of a value whose memory is lost whenever it is looked at

log: Final = logging.getLogger(__name__)


class Group:
    """What the calls of one submission share. Calls of the same group, by identity, travel in one message."""

    __slots__ = ("_bound", "begun_on", "function", "key", "options", "parent")

    def __init__(self, function: Digest, options: TaskOptions, parent: TaskId | None = None) -> None:
        self.function = function
        self.options = options
        self.parent = parent
        self.key = -id(self)  # calls of groups with one key keep their order
        self.begun_on: EngineId = 0  # which the calls were sent to before they were sent to the hub
        self._bound: ActorGroup | None = None  # the last one

    def begun(self, engine: EngineId) -> Group:
        """The group of such a call that was sent to an engine first."""
        group = Group(self.function, self.options, self.parent)
        group.begun_on = engine
        return group

    def bound_to(self, actor: ObjectId) -> ActorGroup:
        """The group of the same calls to this actor."""
        bound = self._bound
        if bound is None or bound.actor != actor:
            bound = self._bound = ActorGroup(self.function, self.options, self.parent, actor)
        return bound


class Pinned(Group):
    """As `Group`, for one call that is tied to a rank."""

    __slots__ = ("rank",)

    def __init__(self, function: Digest, options: TaskOptions, parent: TaskId | None, rank: Rank) -> None:
        super().__init__(function, options, parent)
        self.rank = rank


class ActorGroup(Group):
    """As `Group`, for calls of one method of one actor."""

    __slots__ = ("actor",)

    def __init__(self, function: Digest, options: TaskOptions, parent: TaskId | None, actor: ObjectId) -> None:
        super().__init__(function, options, parent)
        self.actor = self.key = actor

    def begun(self, engine: EngineId) -> Group:
        group = ActorGroup(self.function, self.options, self.parent, self.actor)
        group.begun_on = engine
        return group


class Owner(Protocol):
    """What a reference needs of the session that made it."""

    name: str

    @property
    def store(self) -> serialize.Source | None: ...

    def wait(self, done: Callable[[], bool], timeout_s: float | None = None) -> bool: ...

    def call_directly(self, ref: ObjectRef, timeout_s: float | None) -> bool: ...

    def flush(self) -> None: ...

    def arrivals(self) -> int: ...

    def waiting(self) -> AbstractContextManager[object]: ...

    def fetch(self, *refs: ObjectRef) -> None: ...

    def fetch_again(self, ref: ObjectRef, answer: Result, lost: Sequence[BlockId]) -> None: ...

    def watch(self, ref: ObjectRef, callback: Callable[[ObjectRef], object]) -> None: ...

    def cancel(self, refs: Iterable[ObjectRef], force: bool = False, recursive: bool = True) -> None: ...

    def share(self, ref: ObjectRef) -> None: ...


Due: TypeAlias = "tuple[ObjectRef, list[Callable[[ObjectRef], object]]]"  # callbacks whose time has come


class Attachment:
    """What few references have: callbacks, inputs to keep alive, siblings of the same task."""

    __slots__ = ("callbacks", "inputs", "siblings")

    def __init__(self) -> None:
        self.callbacks: list[Callable[[ObjectRef], object]] = []
        self.inputs: tuple[ObjectRef, ...] = ()
        self.siblings: tuple[ObjectRef, ...] = ()


class ObjectRef:
    """A value that a task will have, or that was put.

    ``fibernb.get(ref)``, ``await ref``, ``ref.result(timeout)`` and ``ref.future()`` give the value or raise the task's
    exception. As an argument of another task it stands for its value.
    """

    __slots__ = ("__weakref__", "answer", "attachment", "call", "group", "id", "session")

    def __init__(self, id_: ObjectId, session: Owner, group: Group | None = None, call: Call | None = None) -> None:
        self.id = id_
        self.session = session
        self.group = group
        self.call = call
        self.answer: Result | None = None
        self.attachment: Attachment | None = None

    def hex(self) -> str:
        """The id, as the state of the cluster shows it; that of a task's first value is the task's."""
        return f"{self.id:#x}"

    def done(self) -> bool:
        """Whether the value, or the exception, is here."""
        return self.answer is not None

    def result(self, timeout: float | None = None) -> Any:
        """The value; waits for it.

        Parameters
        ----------
        timeout : seconds; None waits for ever.

        Raises `GetTimeout` when it was not there in time, or whatever the task raised.
        """
        return wait_for_value(self, None if timeout is None else time.monotonic() + timeout, timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception that the task raised, or None; waits for it as `result` does."""
        answer = wait_for_answer(self, None if timeout is None else time.monotonic() + timeout, timeout)
        return None if answer.outcome is Outcome.OK else error_of(answer)

    def add_done_callback(self, callback: Callable[[ObjectRef], object]) -> None:
        """Call ``callback(ref)`` once the answer is here: now, or later from the thread that reads it."""
        self.session.fetch(self)
        self.session.watch(self, callback)

    def future(self) -> concurrent.futures.Future[Any]:
        """A `concurrent.futures.Future` with the same value; cancelling it cancels the task."""
        future = TaskFuture(self)
        self.add_done_callback(future.take)
        self.session.flush()
        return future

    def cancel(self, force: bool = False, recursive: bool = True) -> None:
        """As `fibernb.cancel`."""
        self.session.cancel([self], force, recursive)

    def __await__(self) -> Generator[Any, None, Any]:
        while True:
            if self.answer is None:
                with self.session.waiting():
                    yield from self._arrival().__await__()
            answer = self.answer
            if answer is not None:
                try:
                    return value_of(answer, self.session)
                except serialize.BlockGone as gone:
                    self.session.fetch_again(self, answer, gone.blocks)

    def _arrival(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        arrival: asyncio.Future[None] = loop.create_future()
        self.add_done_callback(lambda _: tell_loop(loop, arrival))
        self.session.flush()
        return arrival

    def __reduce__(self) -> tuple[Callable[..., ObjectRef], tuple[object, ...]]:
        self.session.share(self)
        assert reviver is not None
        return reviver, (self.id, self.session.name)

    def __copy__(self) -> ObjectRef:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ObjectRef:
        return self

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ObjectRef) and self.id == other.id)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        state = "pending" if self.answer is None else self.answer.outcome.name.lower()
        name = f" of {self.group.options.name}" if self.group is not None and self.group.options.name else ""
        return f"ObjectRef({self.id:#x}{name}, {state})"


def attachment_of(ref: ObjectRef) -> Attachment:
    """The attachment of a reference, made if there is none."""
    if ref.attachment is None:
        ref.attachment = Attachment()
    return ref.attachment


def attach(ref: ObjectRef, inputs: tuple[ObjectRef, ...], siblings: tuple[ObjectRef, ...]) -> None:
    """Keep the inputs of a task with its first reference, and the references to its other values."""
    if inputs or siblings:
        attachment = attachment_of(ref)
        attachment.inputs, attachment.siblings = inputs, siblings


class TaskFuture(concurrent.futures.Future[Any]):
    """The future of one task; cancelling it cancels the task wherever it is."""

    def __init__(self, ref: ObjectRef | None = None) -> None:
        super().__init__()
        self.ref = ref  # None: not submitted yet
        self._claims = iter((True,))  # who takes the one item decides how the future ends

    def cancel(self) -> bool:
        if not next(self._claims, False):
            return self.cancelled()
        self._end_cancelled()
        if self.ref is not None:
            self.ref.cancel()
        return True

    def result(self, timeout: float | None = None) -> Any:
        with self._waiting():
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        with self._waiting():
            return super().exception(timeout)

    def _waiting(self) -> AbstractContextManager[object]:
        """A task that waits for this lends its seat meanwhile."""
        return nullcontext() if self.ref is None or self.done() else self.ref.session.waiting()

    def take(self, ref: ObjectRef) -> None:
        """Take over the answer of the reference, unless the future was cancelled first."""
        answer = ref.answer
        if answer is None:  # its value was lost just now, and is made again
            ref.add_done_callback(self.take)
            return
        try:
            value = value_of(answer, ref.session) if answer.outcome is Outcome.OK else error_of(answer)
        except serialize.BlockGone as gone:
            ref.session.fetch_again(ref, answer, gone.blocks)
            ref.add_done_callback(self.take)
        except BaseException as error:  # noqa: BLE001  whatever unpickling raises, even an exit, is the future's answer
            self.fail(error)
        else:
            self._take(answer.outcome, value)

    def fail(self, error: BaseException) -> None:
        """End with an error, unless the future was cancelled first."""
        if next(self._claims, False):
            self.set_running_or_notify_cancel()
            self.set_exception(error)

    def _take(self, outcome: Outcome, value: Any) -> None:
        if not next(self._claims, False):
            return
        if outcome is Outcome.CANCELLED:
            self._end_cancelled()
            return
        self.set_running_or_notify_cancel()
        if outcome is Outcome.OK:
            self.set_result(value)
        else:
            self.set_exception(value)

    def _end_cancelled(self) -> None:
        super().cancel()
        self.set_running_or_notify_cancel()


def wait_for_answer(ref: ObjectRef, deadline: float | None, timeout: float | None) -> Result:
    """The answer of a reference; waits for it.

    Parameters
    ----------
    deadline : on the monotonic clock; None waits for ever.
    timeout : the seconds that the caller gave, for the error.
    """
    if deadline is None and ref.answer is None and isinstance(ref.group, ActorGroup):
        check_turn(ref.group.actor, ref.group.parent, ref.group.options.name)
    while True:
        answer = ref.answer
        if answer is not None:
            return answer
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        if ref.call is None:  # else it is unanswered, and will be answered unasked
            ref.session.fetch(ref)
        elif ref.session.call_directly(ref, left_s):
            continue
        if not ref.session.wait(ref.done, left_s):
            raise GetTimeout(f"{ref!r} was not ready within {timeout:g} s; its task goes on")


def wait_for_value(ref: ObjectRef, deadline: float | None, timeout: float | None) -> Any:
    """As `wait_for_answer`: the value, or the exception, raised. A value whose memory is lost is made again first."""
    for _ in range(REMAKES):
        answer = ref.answer or wait_for_answer(ref, deadline, timeout)
        try:
            return value_of(answer, ref.session)
        except serialize.BlockGone as gone:
            ref.session.fetch_again(ref, answer, gone.blocks)
    raise ObjectLost(
        f"{ref!r} was made again {REMAKES} times, and each time its memory was gone before it could be read"
    )


def value_of(answer: Result, session: Owner) -> Any:
    """The value of a finished task, or its exception, raised. Raises `BlockGone` when its blocks are not there."""
    if answer.outcome is not Outcome.OK:
        raise error_of(answer)
    return serialize.loads(answer.value, session.store) if answer.blocks else serialize.loads(answer.value)


def error_of(answer: Result) -> BaseException:
    """The exception of a task that failed or was cancelled."""
    error = serialize.loads_error(answer.value)
    if answer.outcome is Outcome.CANCELLED and isinstance(error, KeyboardInterrupt):
        cancelled = TaskCancelled("the task was cancelled while it ran")
        cancelled.__cause__ = error.__cause__
        return cancelled
    return error if dress is None else dress(error)


def run_callbacks(ref: ObjectRef, callbacks: Iterable[Callable[[ObjectRef], object]]) -> None:
    """Call each with the reference; what one raises is logged and does not reach the others.

    An interrupt of the main thread ends the callback that it hits, and is raised when the others have been called.
    """
    interrupt: KeyboardInterrupt | None = None
    for callback in callbacks:
        try:
            callback(ref)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                interrupt = error
            else:
                log.exception("a callback of %r failed", ref)  # the session's thread must not end with it
    if interrupt is not None:
        raise interrupt


def tell_loop(loop: asyncio.AbstractEventLoop, arrival: asyncio.Future[None]) -> None:
    """From any thread: what the loop waits for has come."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(_arrive, arrival)


def _arrive(arrival: asyncio.Future[None]) -> None:
    if not arrival.done():
        arrival.set_result(None)


dress: Callable[[BaseException], BaseException] | None = None  # set by fibernb.client.dressing, when it is wanted
reviver: Callable[[ObjectId, str], ObjectRef] | None = None  # unpickles references; set by fibernb.client.api
