"""Runs calls, one at a time, and turns whatever comes of them into results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from fibernb import serialize
from fibernb.core.messages import Run
from fibernb.engine import tracebacks
from fibernb.engine.interrupts import Interrupts
from fibernb.engine.modules import LocalModules
from fibernb.errors import ProtocolError, SerializationError, TaskCancelled, TaskError
from fibernb.model import Call, Digest, ObjectId, Outcome, Result, TaskId, TaskOptions
from fibernb.wire.codec import MAX_MESSAGE_BYTES

LOADED_FUNCTIONS: Final = 256  # kept ready; of the others the code is kept
MAX_RESULT_BYTES: Final = MAX_MESSAGE_BYTES - 2**16  # leaves room in a message for what goes with it

Function = Callable[..., Any]


class Functions:
    """The functions that this engine was sent, by digest."""

    def __init__(self) -> None:
        self._codes: dict[Digest, bytes] = {}
        self._loaded: OrderedDict[Digest, Function] = OrderedDict()

    def define(self, digest: Digest, code: bytes) -> None:
        self._codes[digest] = code

    def load(self, digest: Digest) -> Function:
        """The function, unpickled at its first use. Whatever its unpickling raises, the caller gets."""
        function = self._loaded.pop(digest, None)
        if function is None:
            function = serialize.loads_function(self._code(digest))
        self._loaded[digest] = function
        if len(self._loaded) > LOADED_FUNCTIONS:
            self._loaded.popitem(last=False)
        return function

    def _code(self, digest: Digest) -> bytes:
        try:
            return self._codes[digest]
        except KeyError:
            raise ProtocolError(f"this engine was never sent the function {digest.hex()}") from None


class Batch:
    """What the calls of one `Run` message have in common."""

    __slots__ = ("_inputs", "_options", "function", "one_value", "result_name")

    def __init__(self, function: Function, options: TaskOptions, inputs: Mapping[ObjectId, bytes]) -> None:
        self.function = function
        self.one_value = options.num_returns == 1
        self.result_name = f"result of {options.name or getattr(function, '__name__', 'the task')}"
        self._options = options
        self._inputs = inputs

    def values(self, call: Call) -> Sequence[Any]:
        """What the call refers to, unpickled anew, so that no two calls share it."""
        return [serialize.loads(self._inputs[id_]) for id_ in call.deps]

    def several_values(self, task: TaskId, value: Any) -> Result:
        """The result of a task that returns several values, or none."""
        count = self._options.num_returns
        if count == 0:
            return Result(task, serialize.dumps(None))
        values = list(value) if isinstance(value, Iterable) else [value]
        if len(values) != count:
            raise ValueError(f"{self.result_name}: {len(values)} values, but num_returns={count} asks for that many")
        first, *more = [serialize.dumps(item, f"{self.result_name}[{index}]") for index, item in enumerate(values)]
        return Result(task, first, Outcome.OK, tuple(more))


class Runner:
    """Runs calls in the main thread."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._functions = Functions()
        self._modules = LocalModules()
        self._modules.note()  # before the fork: to look at every module takes a copy of the pages that it lies on

    def prepare(self, message: Run) -> Batch:
        """What the calls of a message have in common. A function that cannot be loaded fails each of them.

        So does a module of the user's own that has been edited and cannot be loaded again.
        """
        if message.code is not None:
            self._functions.define(message.function, message.code)
        try:
            self._modules.refresh()
            function = self._functions.load(message.function)
        except BaseException as error:  # noqa: BLE001  unpickling runs the user's code, which may even exit
            function = _failing(error)
        inputs = {id_: value for result in message.inputs for id_, value in _values_of(result)}
        return Batch(function, message.options, inputs)

    def run(self, batch: Batch, call: Call) -> Result:
        """One call, whatever it does (short of ending the process)."""
        interrupts = self._interrupts
        task = call.id
        try:
            interrupts.armed = task
            if interrupts.target == task:
                interrupts.strike()
            args, kwargs = serialize.loads_call(call.args, batch.values(call) if call.deps else ())
            value = batch.function(*args, **kwargs)
            if batch.one_value:
                result = Result(task, serialize.dumps(value, batch.result_name))
            else:
                result = batch.several_values(task, value)
            if len(result.value) > MAX_RESULT_BYTES or result.more:
                _check_size(batch, result)
            interrupts.armed = 0
        except BaseException as error:  # noqa: BLE001  SystemExit and KeyboardInterrupt of a task are its own
            interrupts.armed = 0
            was_interrupted = isinstance(error, KeyboardInterrupt) and interrupts.struck == task
            result = failure(task, error, was_interrupted)
        self._modules.note()
        return result


def failure(task: TaskId, error: BaseException, was_interrupted: bool = False) -> Result:
    """The result of a task that raised. The exception's frames are let go."""
    data = _account(error)
    error.__traceback__ = None
    return Result(task, data, Outcome.CANCELLED if was_interrupted else Outcome.ERROR)


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


def _check_size(batch: Batch, result: Result) -> None:
    size = sum(map(len, (result.value, *result.more)))
    if size > MAX_RESULT_BYTES:
        raise _too_large(batch.result_name, size)


def _too_large(name: str, size_bytes: int) -> SerializationError:
    return SerializationError(
        f"{name} takes {size_bytes:,} bytes, more than the {MAX_RESULT_BYTES:,} that a message may have: "
        "return smaller parts, or let the task write the data itself"
    )


def stopped(task: TaskId) -> Result:
    """The result of a task that was cancelled before it began."""
    return Result(task, serialize.dumps_error(TaskCancelled("cancelled before it began")), Outcome.CANCELLED)


def _failing(error: BaseException) -> Function:
    text = f"while loading the function on the engine: {type(error).__name__}"

    def fail(*_args: object, **_kwargs: object) -> None:
        error.add_note(text)
        raise error

    return fail


def _values_of(result: Result) -> list[tuple[ObjectId, bytes]]:
    return [(result.id + index, value) for index, value in enumerate((result.value, *result.more))]
