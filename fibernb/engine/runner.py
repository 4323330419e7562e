"""Runs calls, one at a time, and turns whatever comes of them into results."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, Final

from fibernb import serialize
from fibernb.core.messages import ActorRecord, Run
from fibernb.engine.actors import ActorExit, Host, Method, ProcessExit, dead
from fibernb.engine.batches import Batch, Function, Store, failing
from fibernb.engine.interrupts import Interrupts
from fibernb.engine.keeping import keep_error
from fibernb.engine.modules import LocalModules
from fibernb.engine.streaming import Streams
from fibernb.errors import ActorDied, ProtocolError
from fibernb.model import Call, Digest, ObjectId, Result, TaskOptions

LOADED_FUNCTIONS: Final = 256  # kept ready; of the others the code is kept


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
            if inspect.iscoroutinefunction(function):
                function = _awaited(function)
        self._loaded[digest] = function
        if len(self._loaded) > LOADED_FUNCTIONS:
            self._loaded.popitem(last=False)
        return function

    def _code(self, digest: Digest) -> bytes:
        try:
            return self._codes[digest]
        except KeyError:
            raise ProtocolError(f"this engine was never sent the function {digest.hex()}") from None


class Runner:
    """Runs calls in the main thread.

    ``store`` is the object store of this host, None where there is none. ``host`` is the actor that lives here, if one
    does. ``broken`` is why no call can be run here.
    """

    def __init__(self, interrupts: Interrupts, streams: Streams) -> None:
        self.store: Store | None = None
        self.host: Host | None = None
        self.broken: BaseException | None = None
        self._interrupts = interrupts
        self._streams = streams
        self._functions = Functions()
        self._modules = LocalModules()
        self._modules.note()  # before the fork: to look at every module takes a copy of the pages that it lies on

    # ---- before the calls ----------------------------------------------------------------------------------

    def prepare(self, message: Run) -> Batch:
        """What the calls of a message have in common. A function that cannot be loaded fails each of them.

        So does a module of the user's own that has been edited and cannot be loaded again.
        """
        if message.code is not None:
            self._functions.define(message.function, message.code)
        group = ""
        try:
            function = self._load(message.function)
            if type(function) is Method:
                group, function = function.group, self._method(function)
        except BaseException as error:  # noqa: BLE001  unpickling runs the user's code, which may even exit
            function = failing(error, f"while loading the function on the engine: {type(error).__name__}")
        inputs, borrows = _inputs_of(message) if message.inputs else ({}, False)
        return Batch(function, message.options, inputs, self.store, borrows=borrows, group=group)

    def prepare_actor(self, message: Run, record: ActorRecord) -> Batch:
        """As `prepare`, for the one call that makes an actor: it sets ``host``, and may have to be awaited."""
        options, (inputs, borrows) = record.create.options, _inputs_of(message)
        name = TaskOptions(name=f"{options.class_name or 'the actor'}.__init__")
        try:
            self._functions.define(record.create.function, record.code)
            kind = self._load(record.create.function)
        except BaseException as error:  # noqa: BLE001  unpickling runs the user's code, which may even exit
            make = failing(error, f"while loading the actor's class on the engine: {type(error).__name__}")
        else:
            make = functools.partial(self._make, record, kind)
        return Batch(make, name, inputs, self.store, borrows=borrows)

    def _make(self, record: ActorRecord, kind: Function, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, None] | None:
        name = record.create.options.class_name or "the actor"
        try:
            host = Host(record, kind(*args, **kwargs))
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            raise ActorDied(f"{name} could not be made: its constructor raised {told}") from error
        restoring = host.restore()
        if inspect.iscoroutine(restoring):
            return self._make_later(host, restoring)
        self.host = host
        return None

    async def _make_later(self, host: Host, restoring: Coroutine[Any, Any, Any]) -> None:
        await restoring
        self.host = host

    def _load(self, digest: Digest) -> Function:
        if self.broken is not None:
            raise self.broken
        if self.host is None:  # an actor goes on with the code that it was made of
            self._modules.refresh()
        return self._functions.load(digest)

    def _method(self, method: Method) -> Function:
        if self.host is None:
            raise dead()
        return self.host.method(method)

    # ---- the calls -----------------------------------------------------------------------------------------

    def run(self, batch: Batch, call: Call) -> Result:
        """One call, whatever it does (short of ending the process or, with `ActorExit` or `ProcessExit`, the actor)."""
        interrupts = self._interrupts
        task = call.id
        try:
            interrupts.armed = task
            if interrupts.target == task:
                interrupts.strike()
            args, kwargs = serialize.loads_call(call.args, batch.inputs(call) if call.deps else (), batch.store)
            value = batch.function(*args, **kwargs)
            if batch.is_streaming:
                result = self._streams.run(batch, task, value)
            else:
                result = batch.result(task, value)
            interrupts.armed = 0
        except (ActorExit, ProcessExit):
            interrupts.armed = 0
            raise
        except BaseException as error:  # noqa: BLE001  SystemExit and KeyboardInterrupt of a task are its own
            interrupts.armed = 0
            was_interrupted = isinstance(error, KeyboardInterrupt) and interrupts.struck == task
            keep_error(task, batch.name, error)
            result = batch.failure(task, error, was_interrupted)
        self._modules.note()
        return result


def _inputs_of(message: Run) -> tuple[dict[ObjectId, bytes], bool]:
    """Values by object, and whether there are references in them."""
    parts = [part for result in message.inputs for part in (result, *result.more)]
    return {part.id: part.value for part in parts}, any(part.refs for part in parts)


def _awaited(function: Function) -> Function:
    """For a task that is a coroutine: run it in an event loop of its own."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return run
