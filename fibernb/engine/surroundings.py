"""What the calls of an engine find around them: gpus, a runtime environment, and what they can ask for."""

from __future__ import annotations

import contextlib

from fibernb.core.messages import ActorRecord, Run
from fibernb.engine import environments, system
from fibernb.engine.context import EngineContext
from fibernb.engine.devices import Devices
from fibernb.errors import FibernbError


class Surroundings:
    """Belongs to the main thread, but for `settle`. ``context`` is None in tests of the engine alone."""

    def __init__(self) -> None:
        self.context: EngineContext | None = None
        self._devices = Devices()

    def set_up(self, environment: str) -> BaseException | None:
        """Enter a runtime environment, before the first call. Why that cannot be done, if it cannot."""
        if not environment:
            return None
        try:
            place = environments.enter(environment)
        except Exception as error:  # noqa: BLE001  every call here is to fail with it
            return error
        if self.context is not None:
            self.context.environment = environment
            self.context.paths, self.context.has_own_directory = place.paths, place.has_own_directory
        return None

    def suit(self, run: Run) -> None:
        """Let the calls of a message see what they were given; those of an actor share all but the name."""
        context = self.context
        if context is None:
            return
        options = run.options
        context.name_of_calls = options.name
        if context.actor:
            return
        context.resources, context.placement, context.captures = options.resources, options.placement, options.captures
        if run.gpus != context.gpus:
            self._give(context, run.gpus)

    def house(self, record: ActorRecord, gpus: tuple[int, ...]) -> None:
        """Let an actor see what it was given, for all its life."""
        create, context = record.create, self.context
        options = create.options
        system.set_process_name(f"fibernb-{options.class_name or 'actor'}")
        if context is None:
            return
        context.actor, context.actor_about, context.actor_name = create.actor, create.about, options.name
        context.one_by_one = not (options.is_async or options.groups or options.max_concurrency > 1)
        context.namespace, context.was_restarted = options.namespace, record.restarts > 0
        context.resources, context.placement, context.captures = options.resources, options.placement, options.captures
        self._give(context, gpus)

    def settle(self) -> None:
        """Wait until the hub knows of all references that this process has; from any thread."""
        settle = None if self.context is None else self.context.settle
        if settle is not None:
            with contextlib.suppress(FibernbError):  # there is no hub any more: then nobody asks
                settle()

    def send_calls(self) -> None:
        """Send the calls that tasks have submitted; from any thread."""
        send = None if self.context is None else self.context.send_calls
        if send is not None:
            send()

    def sent(self) -> object:
        """Something that changes with what this process submits to the hub, or tells it."""
        sent = None if self.context is None else self.context.sent
        return None if sent is None else sent()

    def _give(self, context: EngineContext, gpus: tuple[int, ...]) -> None:
        self._devices.show(gpus)
        context.gpus = gpus
