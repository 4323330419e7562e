"""The actor of an engine: its instance, what is called on it, and what it leaves behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

import msgspec

from fibernb import serialize
from fibernb.core.messages import ActorRecord
from fibernb.engine import context
from fibernb.errors import ActorDied, ClusterError, SerializationError

CHECKPOINT: Final = "__fibernb_checkpoint__"
RESTORE: Final = "__fibernb_restore__"
SHUTDOWN: Final = ("__fibernb_shutdown__", "__ray_shutdown__")  # called when the actor ends in good order
CALL: Final = "__fibernb_call__"  # a method that every actor has: calls a function in its process
INTERVAL: Final = "__fibernb_checkpoint_interval_s__"


class ActorExit(BaseException):
    """Raised in a call of an actor to end the actor in good order."""

    def __init__(self, reason: str = "it called exit_actor") -> None:
        self.reason = reason
        super().__init__(reason)


class ProcessExit(BaseException):
    """Raised in a call of an actor that is a process, to end the engine with this exit code. The call is not answered:
    its caller hears how the engine has ended.
    """

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


class Method:
    """Stands for a method of an actor where a task has its function.

    ``group`` is the concurrency group that its calls run in; empty: that of the actor.
    """

    __slots__ = ("group", "name")

    def __init__(self, name: str, group: str = "") -> None:
        self.name = name
        self.group = group

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise ClusterError(f"{self.name} is a method of an actor: call it as handle.{self.name}.remote(...)")

    def __repr__(self) -> str:
        return f"Method({self.name!r}, {self.group!r})"


def exit_actor() -> NoReturn:
    """End the actor in whose call this runs; its other calls fail with `ActorDied`, and it is not restarted.

    Raises `ClusterError` outside of actors.
    """
    engine = context.current()
    if engine is None or not engine.actor:
        raise ClusterError("exit_actor ends the actor that calls it, and this code does not run in one")
    raise ActorExit


class Host:
    """An instance and what is kept of it."""

    def __init__(self, record: ActorRecord, instance: Any) -> None:
        self.record = record
        self._instance = instance
        self._checkpoint: Callable[[], Any] | None = getattr(instance, CHECKPOINT, None)
        self._interval_s = float(getattr(instance, INTERVAL, 0.0))
        self._next_at = 0.0

    @property
    def saves(self) -> bool:
        """Whether the actor has checkpoints."""
        return self._checkpoint is not None

    def method(self, method: Method) -> Callable[..., Any]:
        """What a call of the method calls. Raises `AttributeError` when there is none."""
        special = _SPECIAL.get(method.name)
        if special is None:
            found: Callable[..., Any] = getattr(self._instance, method.name)
            return found
        return special(self._instance)

    def due_checkpoint(self) -> Any:
        """What the actor's checkpoint method returns, which may have to be awaited; None while none is due."""
        if self._checkpoint is None or time.monotonic() < self._next_at:
            return None
        return self._checkpoint()

    def keep_checkpoint(self, value: Any) -> ActorRecord:
        """The record, which has what a checkpoint method has given from now on.

        Raises `SerializationError` when it cannot outlive this engine.
        """
        name = f"checkpoint of {self.record.create.options.class_name or 'the actor'}"
        data, _, refs = serialize.pack(value, name)
        if refs:
            raise SerializationError(
                f"{name} contains references, whose objects end with this engine: put their values into it"
            )
        self.record = msgspec.structs.replace(self.record, checkpoint=data)
        self._next_at = time.monotonic() + self._interval_s
        return self.record

    def restore(self) -> Any:
        """Give the instance back what its predecessor saved; what it returns may have to be awaited."""
        if self.record.checkpoint is None:
            return None
        restore = getattr(self._instance, RESTORE, None)
        if restore is None:
            raise ClusterError(f"{type(self._instance).__name__} has {CHECKPOINT} but no {RESTORE}(state): define both")
        return restore(serialize.loads(self.record.checkpoint))

    def end(self) -> Any:
        """Let the actor clean up, in order; what its method returns may have to be awaited."""
        names = [name for name in SHUTDOWN if hasattr(self._instance, name)]
        return getattr(self._instance, names[0])() if names else None

    def drop(self) -> None:
        """Let the instance go: what it does when it is collected happens now."""
        self._instance = self._checkpoint = None


def dead() -> ActorDied:
    """For calls to an engine whose actor is not there."""
    return ActorDied("there is no actor on this engine: its constructor failed, or it has ended")


def _exit() -> NoReturn:
    raise ActorExit("it was told to terminate")


_SPECIAL: Final[dict[str, Callable[[Any], Callable[..., Any]]]] = {
    "__ray_ready__": lambda _: lambda: True,
    "__ray_call__": lambda instance: lambda function, *args, **kwargs: function(instance, *args, **kwargs),
    "__ray_terminate__": lambda _: _exit,
    CALL: lambda _: lambda function, *args: function(*args),
}
