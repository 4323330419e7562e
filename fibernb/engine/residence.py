"""An actor in its engine: made, saved after its calls, ended."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from fibernb.core.messages import ActorRecord, Run
from fibernb.engine import tracebacks
from fibernb.engine.actors import CHECKPOINT, SHUTDOWN, Host
from fibernb.engine.batches import Batch
from fibernb.engine.coroutines import Coroutines
from fibernb.engine.keeping import forget_error
from fibernb.engine.post import Post
from fibernb.engine.runner import Runner
from fibernb.engine.siding import Crew, Siding
from fibernb.engine.threads import Threads
from fibernb.model import ActorOptions, Call, Result


class Residence:
    """What an engine has for the one actor that may come to live in it.

    ``crew`` runs its calls, None where they run in the main loop one by one. ``is_left``: it has ended itself.
    ``saves``: it has checkpoints.
    """

    def __init__(self, runner: Runner, post: Post, siding: Siding) -> None:
        self.crew: Crew | None = None
        self.is_left = False
        self.is_taken = False
        self.saves = False
        self._runner = runner
        self._post = post
        self._siding = siding

    def make(self, run: Run, record: ActorRecord, call: Call) -> tuple[Batch, Result]:
        """Make the actor; the result of its creation, and of what calls it was one.

        Whatever its constructor raises is the result's, but for `fibernb.engine.actors.ActorExit`.
        """
        self.is_taken = True
        options = record.create.options
        batch = self._runner.prepare_actor(run, record)
        if options.is_async:
            coroutines = Coroutines(self._siding, self, _limits(options))
            result = coroutines.create(batch, call)
            self.crew = coroutines
        else:
            result = self._runner.run(batch, call)
            if options.max_concurrency > 1 or options.groups:
                self.crew = Threads(self._siding, self, _limits(options))
        if self._runner.host is not None:
            self.saves = self._runner.host.saves
            self._post.keep_actor(record)
        return batch, result

    def end(self) -> None:
        """The engine ends in good order: let the actor do what it wants to do last."""
        host, last_words = self._runner.host, None
        try:
            last_words = None if host is None else host.end()
        except Exception as error:  # noqa: BLE001  whatever the user's method raises
            _tell(f"{SHUTDOWN[0]} failed", error)
        if isinstance(self.crew, Coroutines):
            self.crew.end(last_words if inspect.iscoroutine(last_words) else None)
        if host is not None:
            forget_error()
            host.drop()

    # ---- checkpoints: see `fibernb.engine.siding.Saver` ------------------------------------------------------

    def save(self) -> None:
        """After a call: keep a checkpoint, if one is due. Its failure is told, and the call stands."""
        host = self._host()
        try:
            self._keep(host, host.due_checkpoint())
        except Exception as error:  # noqa: BLE001  whatever the user's method raises
            _tell(f"{CHECKPOINT} failed, so the actor keeps the checkpoint that it has", error)

    async def save_async(self) -> None:
        """As `save`, in the actor's event loop."""
        host = self._host()
        try:
            value = host.due_checkpoint()
            self._keep(host, await value if inspect.iscoroutine(value) else value)
        except Exception as error:  # noqa: BLE001  whatever the user's method raises
            _tell(f"{CHECKPOINT} failed, so the actor keeps the checkpoint that it has", error)

    def _host(self) -> Host:
        assert self._runner.host is not None
        return self._runner.host

    def _keep(self, host: Host, value: Any) -> None:
        if value is not None:
            self._post.save(host.keep_checkpoint(value))


def _limits(options: ActorOptions) -> dict[str, int]:
    return {"": options.max_concurrency, **options.groups}


def _tell(what: str, error: Exception) -> None:
    sys.stderr.write(f"fibernb: {what}\n{tracebacks.text_of(error)}")
