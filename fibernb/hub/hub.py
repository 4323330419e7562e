"""The driver: reads what arrives, feeds the scheduler, carries out what it says. It decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from fibernb.core import commands
from fibernb.core.scheduler import Scheduler
from fibernb.hub.admission import Admission
from fibernb.hub.clients import TAKEN, Clients
from fibernb.hub.engines import Engines
from fibernb.hub.node import Host, Node
from fibernb.hub.node_process import NodeProcess
from fibernb.hub.store import Store, StoreDoor
from fibernb.hub.switchboard import Switchboard
from fibernb.hub.timers import Timers
from fibernb.transport import Listener, Peer
from fibernb.wire.handshake import ClientHello, Hello, NodeHello, Refused

END_TIMEOUT_S: Final = 3.0  # for the node and its engines to end in order


class Hub:
    """One cluster: its clients, its engines, and the node that they run on."""

    def __init__(
        self,
        listener: Listener,
        scheduler: Scheduler,
        process: NodeProcess,
        admission: Admission,
        host: Host,
        store: StoreDoor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listener = listener
        self._scheduler = scheduler
        self._admission = admission
        self._clock = clock
        self._timers = Timers()
        self._board = Switchboard(listener, self._meet)
        self._clients = Clients(self._board, scheduler, clock, host.name)
        self._engines = Engines(self._board, scheduler, self._timers, clock)
        self._store = Store(store, self._timers, clock)
        self._node = Node(process, host, self._board, scheduler, self._engines, self._store, self._timers, clock)
        self._reason: str | None = None
        self._farewell_said = False
        self._child_ended = False
        self._carriers: Final[dict[type, Callable[[Any], None]]] = {
            commands.TellClient: self._clients.tell,
            commands.TellEngine: self._engines.tell,
            commands.StartEngine: self._node.fork,
            commands.KillEngine: lambda kill: self._node.kill(kill.engine),
            commands.SignalEngine: lambda order: self._node.signal(order.engine, order.signal),
            commands.DropClient: lambda drop: self._clients.drop(drop.client),
            commands.KeepBlocks: self._store.tell,
            commands.FreeBlocks: self._store.tell,
            commands.RetainBlocks: self._store.tell,
            commands.ShutDown: self._shut_down,
        }

    def begin(self, *, resume: bool = False) -> None:
        """Seat engines from now on; with ``resume``, after those that live already have been found."""
        if resume:
            self._node.recover()
        else:
            self._node.begin()

    def run(self) -> str:
        """Serve until the cluster ends; returns why it does."""
        while self._reason is None:
            self.turn(self._patience_s())
        return self._reason

    def turn(self, timeout_s: float | None) -> None:
        """Wait for something to happen, and do what follows from it."""
        self._board.turn(timeout_s)
        if self._child_ended:
            self._child_ended = False
            self._node.check()
        now = self._clock()
        while (action := self._timers.pop_due(now)) is not None:
            action()
        self._carry_out(now)

    def stop(self, reason: str) -> None:
        """End the cluster after this turn. May be called from a signal handler."""
        self._reason = self._reason or reason
        self._listener.wake()

    def child_ended(self) -> None:
        """Some child process has ended. May be called from a signal handler."""
        self._child_ended = True
        self._listener.wake()

    def end(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """Tell the clients, end the node and its engines, close the socket."""
        if not self._farewell_said:
            self._clients.say_farewell(self._reason or "the hub has ended")
        self._store.close()
        self._node.end(timeout_s)
        self._board.close()

    def _shut_down(self, command: commands.ShutDown) -> None:
        """The scheduler ends the cluster, and has told the clients."""
        self._farewell_said = True
        self.stop(command.reason)

    def _patience_s(self) -> float | None:
        now = self._clock()
        due, other = self._scheduler.next_wakeup(now), self._timers.next_due()
        if due is None or (other is not None and other < due):
            due = other
        return None if due is None else max(0.0, due - now)

    def _carry_out(self, now: float) -> None:
        for command in self._scheduler.drain(now):
            self._carriers[type(command)](command)
        self._node.flush()
        self._store.flush()

    # ---- newcomers -------------------------------------------------------------------------------------

    def _meet(self, peer: Peer, data: bytes) -> None:
        hello = self._admission.read(data)
        if isinstance(hello, Refused):
            self._board.refuse(peer, hello)
        elif self._board.holds and not isinstance(hello, NodeHello):
            self._board.postpone(peer, data)
        else:
            self._welcome(peer, hello)

    def _welcome(self, peer: Peer, hello: Hello) -> None:
        refusal = self._refusal(hello)
        if refusal:
            self._board.turn_away(peer, Refused(kind="taken", reason=refusal))
            return
        self._board.send(peer, self._admission.welcome())
        if isinstance(hello, ClientHello):
            self._board.admit(peer, self._clients.hearer(peer, hello))
            self._clients.attach(peer, hello)
        elif isinstance(hello, NodeHello):
            self._board.admit(peer, self._node.hearer(peer), privileged=True)
            self._node.connect(peer, hello)
        else:
            self._board.admit(peer, self._engines.hearer(peer, hello))
            self._engines.connect(peer, hello)

    def _refusal(self, hello: Hello) -> str:
        """Why there is no place for a peer whose credentials are good; empty when there is."""
        if isinstance(hello, ClientHello):
            return TAKEN if self._clients.is_taken(hello) else ""
        if isinstance(hello, NodeHello):
            return "" if self._node.is_welcome(hello) else "this hub has another node process"
        return "" if self._engines.is_welcome(hello) else "this hub does not know this engine, or has taken it for lost"
