"""The driver's side of the node: the process that forks engines and reports their end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from fibernb.core.commands import StartEngine
from fibernb.core.events import EngineExited, LiveEngine, MemoryLow, NodeUp, RecoverFrom, StoreLost
from fibernb.core.scheduler import Scheduler
from fibernb.hub.engines import Engines
from fibernb.hub.node_process import NodeProcess
from fibernb.hub.store import Store
from fibernb.hub.switchboard import Switchboard
from fibernb.hub.timers import Timers
from fibernb.model import EngineId, Resources
from fibernb.transport import Peer
from fibernb.wire import codec
from fibernb.wire.handshake import (
    EndNode,
    EndProcesses,
    Fork,
    ForkFailed,
    MemoryShort,
    NodeHello,
    NodeMessage,
    ProcessExited,
    Seat,
    SignalProcess,
    StoreEnded,
)

logger: Final = logging.getLogger(__name__)

RECOVERY_PATIENCE_S: Final = 5.0
FIRST_DELAY_S: Final = 0.1  # before a node that died is started again; doubles with each further death
MAX_DELAY_S: Final = 30.0
LAST_WORDS_S: Final = 0.1  # between the end of its link and that of the process
WAIT_TURN_S: Final = 0.01  # for a node that is to end
SETTLED_S: Final = 10.0  # a node that has lived this long is not one that cannot start


class Host(NamedTuple):
    """What the hub knows of the host that it runs on.

    ``capacity`` is what engines share beyond one cpu a seat; ``start_timeout_s`` how long a new node process may take
    to connect; ``tail`` gives the end of the log, for people.
    """

    name: str
    capacity: Resources
    start_timeout_s: float
    tail: Callable[[], str]


class Node:
    """Keeps a node process alive, and tells it what to fork and what to kill."""

    def __init__(
        self,
        process: NodeProcess,
        host: Host,
        board: Switchboard,
        scheduler: Scheduler,
        engines: Engines,
        store: Store,
        timers: Timers,
        clock: Callable[[], float],
    ) -> None:
        self._process = process
        self._host = host
        self._board = board
        self._scheduler = scheduler
        self._engines = engines
        self._store = store
        self._timers = timers
        self._clock = clock
        self._peer: Peer | None = None
        self._recovering = False
        self._down = False  # ended, and not yet started again
        self._ending = False
        self._seats: list[Seat] = []  # to be forked
        self._condemned: list[EngineId] = []  # to be killed
        self._started_at = clock()
        self._delay_s = FIRST_DELAY_S

    # ---- its life --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The node of a new cluster can seat engines from now on, even if its process is not yet up."""
        self._scheduler.handle(NodeUp(node=self._host.name, capacity=self._host.capacity), self._clock())
        self._watch(self._host.start_timeout_s)

    def recover(self) -> None:
        """Wait for the process of a cluster whose hub was killed, holding all others; start one if there is none."""
        self._recovering = True
        self._board.hold()
        if self._process.ended() is None:
            self._watch(min(RECOVERY_PATIENCE_S, self._host.start_timeout_s))
        else:
            self._recovered([], {})
            self._start()

    def is_welcome(self, hello: NodeHello) -> bool:
        """Whether this is the process that we wait for."""
        return self._peer is None and hello.pid == self._process.pid

    def connect(self, peer: Peer, hello: NodeHello) -> None:
        self._peer = peer
        if self._recovering:
            self._recovered(hello.engines, hello.ended)

    def check(self) -> None:
        """Look whether the process has ended before it connected; later, its link tells, after all that it has sent."""
        ended = self._process.ended() if self._peer is None and not self._down else None
        if ended is not None:
            self._lost(ended)

    def hear(self, peer: Peer, data: bytes | None) -> None:
        if peer != self._peer or self._ending:
            return
        if data is None:
            self._peer = None
            self._lost(self._process.ended_within(LAST_WORDS_S) or "lost its link to the hub")
            return
        self._take_in(codec.from_node.decode(data))

    def _take_in(self, message: NodeMessage) -> None:
        if isinstance(message, ProcessExited):
            self._engines.ended(_end(message))
        elif isinstance(message, ForkFailed):
            self._engines.start_failed(message.engines, message.reason)
        elif isinstance(message, StoreEnded):
            self._store.ended(message.generation)
            self._scheduler.handle(StoreLost(generation=message.generation, reason=message.reason), self._clock())
        else:
            self._scheduler.handle(_shortage(self._host.name, message), self._clock())

    def hearer(self, peer: Peer) -> Callable[[bytes | None], None]:
        return partial(self.hear, peer)

    def end(self, timeout_s: float) -> None:
        """Have the process end, and wait for it: its engines die first. Kill it after ``timeout_s``."""
        self._ending = True
        self._board.send(self._peer, EndNode())
        end = self._clock() + (timeout_s if self._peer is not None else 0.0)
        while self._process.ended() is None and self._clock() < end:
            self._board.turn(WAIT_TURN_S)
        self._process.kill()

    def _recovered(self, engines: list[LiveEngine], ended: dict[EngineId, int]) -> None:
        self._recovering = False
        self._engines.expect_all(engines)
        self._scheduler.handle(RecoverFrom(node=self._host.name, engines=engines, ended=ended), self._clock())
        self._scheduler.handle(NodeUp(node=self._host.name, capacity=self._host.capacity), self._clock())
        self._board.release()

    def _watch(self, timeout_s: float) -> None:
        self._down = False
        self._started_at = self._clock()
        self._timers.at(self._started_at + timeout_s, partial(self._check_connected, self._process.pid, timeout_s))

    def _check_connected(self, pid: int, timeout_s: float) -> None:
        if self._peer is None and not self._down and self._process.pid == pid:
            self._lost(f"did not connect within {timeout_s:g} s")

    def _lost(self, reason: str) -> None:
        """Its engines have died with it, or never came to be. Start another one."""
        logger.error("the node process %d %s", self._process.pid, reason)
        self._down = True
        self._process.kill()
        if self._recovering:
            self._recovered([], {})
        self._lose_store(reason)
        self._fail_engines(reason)
        if self._clock() - self._started_at > SETTLED_S:
            self._delay_s = FIRST_DELAY_S
        self._start_later()

    def _lose_store(self, reason: str) -> None:
        for generation in self._store.all_ended():
            lost = StoreLost(generation=generation, reason=f"its node process {reason}")
            self._scheduler.handle(lost, self._clock())

    def _fail_engines(self, reason: str) -> None:
        self._seats.clear()
        self._condemned.clear()
        for engine in self._engines.attached():
            self._engines.ended(EngineExited(engine=engine, exit_code=None, evidence=f"its node process {reason}"))
        unattached = self._engines.unattached()
        if unattached:
            self._engines.start_failed(
                unattached, f"the node process {reason}; the end of its log:\n{self._host.tail()}"
            )

    def _start_later(self) -> None:
        self._timers.at(self._clock() + self._delay_s, self._start)
        self._delay_s = min(2 * self._delay_s, MAX_DELAY_S)

    def _start(self) -> None:
        try:
            self._process.start()
        except OSError as error:
            self._down = True
            self._fail_engines(f"cannot be started ({error.strerror}): end processes, or raise their limit (ulimit -u)")
            self._start_later()
        else:
            self._watch(self._host.start_timeout_s)

    # ---- its engines -----------------------------------------------------------------------------------

    def fork(self, command: StartEngine) -> None:
        """Have an engine started, with the next `flush`."""
        self._engines.expect(command.engine, command.rank)
        self._seats.append(Seat(engine=command.engine, rank=command.rank, environment=command.environment))

    def kill(self, engine: EngineId) -> None:
        """Have an engine killed, with the next `flush`; one that is not forked yet has ended at once."""
        left = [seat for seat in self._seats if seat.engine != engine]
        if len(left) < len(self._seats):
            self._seats = left
            self._engines.ended(EngineExited(engine=engine, exit_code=None, evidence="it was not started"))
        else:
            self._condemned.append(engine)

    def signal(self, engine: EngineId, number: int) -> None:
        """Have a signal sent to an engine that is there."""
        self._board.send(self._peer, SignalProcess(engine=engine, signal=number))

    def flush(self) -> None:
        """Send what has gathered, when there is somebody to send it to."""
        if self._peer is None:
            return
        if self._seats:
            self._board.send(self._peer, Fork(seats=self._seats))
            self._seats = []
        if self._condemned:
            self._board.send(self._peer, EndProcesses(engines=self._condemned))
            self._condemned = []


def _shortage(node: str, message: MemoryShort) -> MemoryLow:
    return MemoryLow(node=node, used_bytes=message.used_bytes, limit_bytes=message.limit_bytes, engines=message.engines)


def _end(message: ProcessExited) -> EngineExited:
    return EngineExited(
        engine=message.engine,
        exit_code=message.exit_code,
        last_output=message.last_output,
        evidence=message.evidence,
    )
