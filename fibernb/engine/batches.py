"""What calls of one message have in common, and how values and exceptions of theirs become results."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from fibernb import serialize
from fibernb.engine import tracebacks
from fibernb.errors import SerializationError, TaskCancelled, TaskError, annotate
from fibernb.model import STREAMING, BlockId, Call, ObjectId, Outcome, Result, TaskId, TaskOptions
from fibernb.serialize import BlockGone, Sink, Source
from fibernb.serialize.pickling import PROTOCOL
from fibernb.serialize.values import is_plain
from fibernb.wire.codec import MAX_MESSAGE_BYTES

MAX_RESULT_BYTES: Final = MAX_MESSAGE_BYTES - 2**16  # leaves room in a message for what goes with it
LONG: Final = frozenset({bytes, str})
SINGLE: Final = (str, bytes, bytearray, Mapping, set, frozenset)  # iterable, but one value to their users

Function = Callable[..., Any]


class Store(Sink, Source, Protocol):
    """The object store of this host; `fibernb.store.agent.StoreAgent` in a real engine."""

    def abandon(self, blocks: Sequence[BlockId]) -> None:
        """These blocks, which this process has written, will not be used after all."""


class Batch:
    """The calls of one `fibernb.core.messages.Run`.

    ``borrows``: references to objects come in with the values of inputs. ``group``: the concurrency group of an actor's
    method.
    """

    __slots__ = (
        "_inputs",
        "_plain_bytes",
        "borrows",
        "function",
        "group",
        "is_streaming",
        "one_value",
        "options",
        "store",
    )

    def __init__(
        self,
        function: Function,
        options: TaskOptions,
        inputs: Mapping[ObjectId, bytes],
        store: Store | None = None,
        *,
        borrows: bool = False,
        group: str = "",
    ) -> None:
        self.function = function
        self.options = options
        self.one_value = options.num_returns == 1
        self.is_streaming = options.num_returns == STREAMING
        self.store = store
        self.borrows = borrows
        self.group = group
        self._inputs = inputs
        self._plain_bytes = MAX_RESULT_BYTES if store is None else store.inline_bytes

    @property
    def name(self) -> str:
        """What people call the function."""
        return self.options.name or getattr(self.function, "__name__", "the task")

    # ---- arguments -----------------------------------------------------------------------------------------

    def inputs(self, call: Call) -> list[Any]:
        """What the call refers to, unpickled anew, so that no two calls share what can be changed."""
        return [serialize.loads(self._inputs[id_], self.store) for id_ in call.deps]

    def arguments(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of a call. Raises `BlockGone`, or whatever unpickling raises."""
        return serialize.loads_call(call.args, self.inputs(call) if call.deps else (), self.store)

    # ---- values --------------------------------------------------------------------------------------------

    def result(self, task: TaskId, value: Any) -> Result:
        """The result of a task that has ended, and was not a stream."""
        if not self.one_value:
            return self._several_values(task, value)
        if is_plain(value) and (type(value) not in LONG or len(value) < self._plain_bytes):
            data = pickle.dumps(value, PROTOCOL)
            if len(data) <= self._plain_bytes:  # nearly always: so this goes the shortest way
                return Result(task, data)
        return self._packed(task, value, f"result of {self.name}")

    def item(self, id_: ObjectId, index: int, value: Any) -> Result:
        """One of several values, or of a stream's."""
        return self._packed(id_, value, f"result of {self.name}[{index}]")

    def _packed(self, id_: ObjectId, value: Any, name: str) -> Result:
        data, blocks, refs = serialize.pack(value, name, self.store)
        if len(data) > MAX_RESULT_BYTES:
            raise _too_large(name, len(data))
        return Result(id_, data, Outcome.OK, (), blocks, refs)

    def _several_values(self, task: TaskId, value: Any) -> Result:
        count = self.options.num_returns
        if count == 0:
            return Result(task, serialize.dumps(None))
        first, *more = self._items(task, self._counted(value, count))
        size = sum(len(part.value) for part in (first, *more))
        if size > MAX_RESULT_BYTES:
            raise _too_large(f"result of {self.name}", size)
        return Result(task, first.value, Outcome.OK, tuple(more), first.blocks, first.refs)

    def _items(self, task: TaskId, values: Sequence[Any]) -> list[Result]:
        made: list[Result] = []
        try:
            for index, value in enumerate(values):
                made.append(self.item(task + index, index, value))
        except BaseException:
            if self.store is not None:
                self.store.abandon([block for result in made for block in result.blocks])
            raise
        return made

    def _counted(self, value: Any, count: int) -> list[Any]:
        is_one = isinstance(value, SINGLE) or not isinstance(value, Iterable)
        values = [value] if is_one else list(islice(value, count + 1))
        if len(values) == count:
            return values
        if is_one:
            found = f"one value (a {type(value).__name__})"
        else:
            found = f"{len(value)} values" if isinstance(value, Sequence) else _more_or_less(len(values), count)
        raise ValueError(
            f"{self.name} returned {found}, but num_returns={count}: return a tuple of {count}, or change num_returns"
        )

    # ---- exceptions ----------------------------------------------------------------------------------------

    def failure(self, task: TaskId, error: BaseException, was_interrupted: bool = False) -> Result:
        """The result of a task that raised. The exception's frames are let go."""
        if isinstance(error, BlockGone):
            return Result(task, b"", Outcome.LOST, (), tuple(error.blocks))
        if isinstance(error, SerializationError):
            _advise(error)
        if was_interrupted:
            return failure(task, error, Outcome.CANCELLED)
        return failure(task, error, Outcome.RETRY if self._may_retry(error) else Outcome.ERROR)

    def _may_retry(self, error: BaseException) -> bool:
        named = self.options.retry_exceptions
        if isinstance(named, bool):
            return named and isinstance(error, Exception)
        try:
            return isinstance(error, serialize.loads(named))
        except Exception as problem:  # noqa: BLE001  unpickling runs the user's code
            error.add_note(f"retry_exceptions could not be read on the engine: {type(problem).__name__}: {problem}")
            return False


def failure(task: TaskId, error: BaseException, outcome: Outcome = Outcome.ERROR) -> Result:
    """The result of a task that raised. The exception's frames are let go."""
    data = _account(error)
    error.__traceback__ = None
    return Result(task, data, outcome)


def stopped(task: TaskId) -> Result:
    """The result of a task that was cancelled before it began."""
    return Result(task, serialize.dumps_error(TaskCancelled("cancelled before it began")), Outcome.CANCELLED)


def failing(error: BaseException, note: str = "") -> Function:
    """A function that raises an error in every call."""
    if note:
        annotate(error, note)

    def fail(*_args: object, **_kwargs: object) -> None:
        raise error

    return fail


def _account(error: BaseException) -> bytes:
    """The exception as bytes; of one that cannot be told, what can be said of it."""
    name = type(error).__name__
    try:
        data = serialize.dumps_error(error, tracebacks.text_of(error))
    except BaseException as problem:  # noqa: BLE001  a user's exception may do anything when it is looked at
        told = TaskError(f"the task raised {name}, and looking at that raised {type(problem).__name__}")
        return serialize.dumps_error(told)
    if len(data) <= MAX_RESULT_BYTES:
        return data
    return serialize.dumps_error(_too_large(f"the {name} that the task raised", len(data)))


def _too_large(name: str, size_bytes: int) -> SerializationError:
    return SerializationError(
        f"{name} takes {size_bytes:,} bytes, more than the {MAX_RESULT_BYTES:,} that a message may have: "
        "return smaller parts, or let the task write the data itself"
    )


def _more_or_less(found: int, count: int) -> str:
    return f"more than {count} values" if found > count else f"{found} values"


def _advise(error: SerializationError) -> None:
    """Tell those what to do who return what can only be run; a name that could not be sent is no such thing."""
    if "generator" in str(error) and "could not be sent" not in str(error):
        error.add_note('a generator cannot be returned as it is: with num_returns="streaming" each of its items can')
