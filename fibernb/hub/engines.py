"""The driver's side of the engines: their two links, and the news of their end.

The node's word that an engine's process has ended can overtake the last results on that engine's own link. So an end is
reported only when the link has been read to its end as well; and a broken link counts as the engine's loss only when
the node has not told of its end. Both wait for the other half of the news for `PATIENCE_S`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from fibernb.core.commands import TellEngine
from fibernb.core.events import EngineAttached, EngineExited, EngineUnreachable, LiveEngine, StartFailed
from fibernb.core.messages import OpenDoor, Run
from fibernb.core.scheduler import Scheduler
from fibernb.hub.switchboard import Switchboard
from fibernb.hub.timers import Timers
from fibernb.model import EngineId, Rank
from fibernb.transport import Peer
from fibernb.wire import codec
from fibernb.wire.handshake import ControlHello, EngineHello

PATIENCE_S: Final = 0.5


class _Engine:
    """One engine process, from the order to start it to its end."""

    __slots__ = ("attached", "attempt", "broken", "control", "data", "end", "hello", "rank")

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.control: Peer | None = None
        self.data: Peer | None = None
        self.hello: EngineHello | None = None
        self.attempt = 0  # of its, to dial, that the links are of
        self.attached = False  # the scheduler knows that it can take work
        self.broken = False  # it has lost a link
        self.end: EngineExited | None = None


class Engines:
    """All engines that were asked for and have not ended."""

    def __init__(self, board: Switchboard, scheduler: Scheduler, timers: Timers, clock: Callable[[], float]) -> None:
        self._board = board
        self._scheduler = scheduler
        self._timers = timers
        self._clock = clock
        self._engines: dict[EngineId, _Engine] = {}

    def expect(self, engine: EngineId, rank: Rank) -> None:
        """An engine is about to be started, or is known to live."""
        self._engines[engine] = _Engine(rank)

    def expect_all(self, engines: list[LiveEngine]) -> None:
        for engine in engines:
            self.expect(engine.engine, engine.rank)

    def attached(self) -> list[EngineId]:
        return [id_ for id_, engine in self._engines.items() if engine.attached]

    def unattached(self) -> list[EngineId]:
        return [id_ for id_, engine in self._engines.items() if not engine.attached]

    def is_welcome(self, hello: EngineHello | ControlHello) -> bool:
        """Whether this engine is one of ours, and has no such link yet."""
        engine = self._engines.get(hello.engine)
        if engine is None or engine.broken or engine.attached or hello.attempt < engine.attempt:
            return False
        link = engine.data if isinstance(hello, EngineHello) else engine.control
        return link is None or hello.attempt > engine.attempt

    def connect(self, peer: Peer, hello: EngineHello | ControlHello) -> None:
        engine = self._engines[hello.engine]
        if hello.attempt > engine.attempt:
            self._begin_anew(engine, hello.attempt)
        if isinstance(hello, EngineHello):
            engine.data, engine.hello = peer, hello
        else:
            engine.control = peer
        if engine.control is not None and engine.hello is not None:
            engine.attached = True
            self._scheduler.handle(_attachment(engine.hello), self._clock())

    def hearer(self, peer: Peer, hello: EngineHello | ControlHello) -> Callable[[bytes | None], None]:
        return partial(self.hear, hello.engine, peer)

    def hear(self, id_: EngineId, peer: Peer, data: bytes | None) -> None:
        engine = self._engines.get(id_)
        if engine is None:
            return
        if data is None:
            self._break(id_, engine, peer)
        elif engine.attached:
            self._scheduler.engine_message(id_, codec.from_engine.decode(data), self._clock())

    def tell(self, command: TellEngine) -> None:
        engine = self._engines.get(command.engine)
        if engine is not None:
            message = command.message
            self._board.send(engine.data if isinstance(message, Run | OpenDoor) else engine.control, message)

    def start_failed(self, engines: list[EngineId], reason: str) -> None:
        for engine in engines:
            self._forget(engine)
        if engines:
            self._scheduler.handle(StartFailed(engines=engines, reason=reason), self._clock())

    def ended(self, event: EngineExited) -> None:
        """The process of an engine has ended; what it had sent is heard first."""
        engine = self._engines.get(event.engine)
        if engine is None:
            return
        engine.end = event
        if engine.data is None:
            self._report_end(event.engine)
        else:
            self._timers.at(self._clock() + PATIENCE_S, partial(self._report_end, event.engine))

    def _break(self, id_: EngineId, engine: _Engine, peer: Peer) -> None:
        if peer == engine.data:
            engine.data = engine.hello = None
        elif peer == engine.control:
            engine.control = None
        if not engine.attached:
            return  # it dials again
        if engine.end is not None:
            if engine.data is None:
                self._report_end(id_)
        elif not engine.broken:
            engine.broken = True
            self._timers.at(self._clock() + PATIENCE_S, partial(self._give_up, id_))

    def _begin_anew(self, engine: _Engine, attempt: int) -> None:
        """An engine that has one link dials once more: the hub that had the other may have been killed meanwhile."""
        for link in (engine.data, engine.control):
            self._board.drop(link)
        engine.attempt, engine.data, engine.control, engine.hello = attempt, None, None, None

    def _give_up(self, id_: EngineId) -> None:
        engine = self._engines.get(id_)
        if engine is not None and engine.end is None:
            self._scheduler.handle(EngineUnreachable(engine=id_), self._clock())

    def _report_end(self, id_: EngineId) -> None:
        engine = self._engines.get(id_)
        if engine is not None and engine.end is not None:
            self._forget(id_)
            self._scheduler.handle(engine.end, self._clock())

    def _forget(self, id_: EngineId) -> None:
        engine = self._engines.pop(id_, None)
        if engine is not None:
            self._board.drop(engine.data)
            self._board.drop(engine.control)


def _attachment(hello: EngineHello) -> EngineAttached:
    return EngineAttached(
        engine=hello.engine,
        rank=hello.rank,
        pid=hello.pid,
        received=hello.received,
        holds=hello.holds,
        running=hello.running,
        redelivers=hello.redelivers,
        actor=hello.actor,
    )
