"""What threads and coroutines of an actor need of the engine."""

from __future__ import annotations

import os
import traceback
from typing import Final, NoReturn, Protocol

from fibernb.engine.batches import Batch
from fibernb.engine.ledger import Ledger
from fibernb.engine.streaming import Streams
from fibernb.model import Call, Result, TaskId

CRASHED_EXIT_CODE: Final = 70


def crash() -> NoReturn:
    """End the process for an error of our own, which is being handled: then its calls are answered by its death."""
    os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    os._exit(CRASHED_EXIT_CODE)


class Siding(Protocol):
    """The engine, for those who run calls beside its main loop."""

    ledger: Ledger
    streams: Streams

    def now(self) -> float:
        """On the host's monotonic clock, in seconds."""

    def end(self, batch: Batch, call: Call, result: Result, began_s: float) -> None:
        """A call has ended with this result, which is sent with the next `flush`."""

    def flush(self) -> None:
        """Send what was said, and the results there are."""

    def flush_soon(self) -> None:
        """As `flush`, in a moment, from another thread."""

    def leave(self, reason: str) -> None:
        """The actor has ended itself."""


class Saver(Protocol):
    """Keeps checkpoints of the actor, after its calls."""

    @property
    def saves(self) -> bool:
        """Whether there is anything to do after a call."""

    def save(self) -> None: ...

    async def save_async(self) -> None: ...


class Crew(Protocol):
    """Runs calls of an actor beside each other."""

    def start(self, batch: Batch, call: Call) -> None:
        """Have a call run as soon as there is room for it; called in the order of arrival, by the main thread."""

    def interrupt(self, task: TaskId) -> None:
        """Stop a call that has begun; from any thread."""
