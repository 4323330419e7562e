"""Stand-ins for what surrounds the driver: a scheduler that is told what to say, a node process that is none, peers in
memory."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, cast

from fibernb import transport
from fibernb.core.commands import Command
from fibernb.core.messages import Message
from fibernb.core.scheduler import Scheduler
from fibernb.errors import NotConnected
from fibernb.hub.admission import Admission, Identity
from fibernb.hub.hub import Hub
from fibernb.hub.limits import Limit
from fibernb.hub.node import Host
from fibernb.hub.store import StoreDoor
from fibernb.model import Resources
from fibernb.transport import Link
from fibernb.wire import codec, credentials
from fibernb.wire.codec import Reader
from fibernb.wire.handshake import (
    ClientHello,
    ControlHello,
    EngineHello,
    NodeHello,
)

KEY = "the key of the cluster"
NO_STORE = Path("/nonexistent/store.sock")
_numbers = itertools.count()


class FakeScheduler:
    """Writes down what it hears; says what it was given to say."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.orders: list[Command] = []
        self.wakeup: float | None = None

    def handle(self, event: object, now: float) -> None:
        self.heard.append(event)

    def client_message(self, client: int, message: Message, now: float) -> None:
        self.heard.append((client, message))

    def engine_message(self, engine: int, message: Message, now: float) -> None:
        self.heard.append((engine, message))

    def drain(self, now: float) -> list[Command]:
        said, self.orders = self.orders, []
        return said

    def next_wakeup(self, now: float) -> float | None:
        return self.wakeup

    def take(self) -> list[object]:
        heard, self.heard = self.heard, []
        return heard


class FakeNodeProcess:
    """Implements `fibernb.hub.node_process.NodeProcess`."""

    def __init__(self) -> None:
        self.pid = 100
        self.end: str | None = None
        self.starts = 0
        self.refuses: OSError | None = None

    def start(self) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.pid += 1
        self.starts += 1
        self.end = None

    def ended(self) -> str | None:
        return self.end

    def ended_within(self, timeout_s: float) -> str | None:
        return self.end

    def kill(self) -> None:
        self.end = self.end or "was killed by signal 9"


class Peer:
    """The other end of a link to the hub of a `Room`."""

    def __init__(self, room: Room, link: Link, reader: Reader[Any]) -> None:
        self.room = room
        self.link = link
        self._reader = reader
        self._arrived: list[bytes] = []

    def send(self, *messages: Message) -> None:
        for message in messages:
            self.link.send(codec.encode(message))
        self.room.turn()

    def send_bytes(self, data: bytes) -> None:
        self.link.send(data)
        self.room.turn()

    def close(self) -> None:
        self.link.close()
        self.room.turn()

    def receive(self) -> Any:
        if not self._arrived:
            self._arrived = self.link.receive(1.0)
        return self._reader.decode(self._arrived.pop(0))

    def is_dropped(self) -> bool:
        try:
            while self.link.receive(0.2):
                pass
        except NotConnected:
            return True
        return False


class Room:
    """A hub in memory, with everything around it in the test's hands."""

    def __init__(self, store: Path = NO_STORE) -> None:
        self.address = f"memory:hub-{next(_numbers)}"
        self.now = 1000.0
        self.scheduler = FakeScheduler()
        self.process = FakeNodeProcess()
        self.nodes: list[Peer] = []
        self.hub = Hub(
            transport.listen(self.address),
            cast(Scheduler, self.scheduler),
            self.process,
            Admission(Identity("alpha", KEY), Limit(8, "the test allows 8")),
            Host("here", Resources(milli_cpus=0, milli_gpus=2000), 60.0, lambda: "the last line"),
            StoreDoor(store, KEY),
            clock=lambda: self.now,
        )

    def turn(self) -> None:
        self.hub.turn(0.05)

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.hub.turn(0.0)

    def order(self, *commands: Command) -> None:
        """Have the scheduler say this, and the hub carry it out."""
        self.scheduler.orders += commands
        self.hub.turn(0.0)

    def heard(self) -> list[object]:
        """What the scheduler has heard since the last time."""
        return self.scheduler.take()

    def dial(self, reader: Reader[Any] = codec.to_client) -> Peer:
        return Peer(self, transport.dial(self.address), reader)

    def client(self, key: str = KEY, **fields: Any) -> Peer:
        peer = self.dial()
        usual: dict[str, Any] = {"client": 7, "instance": "a", "lease_s": 30.0}
        peer.send(ClientHello(credentials=credentials(key), **(usual | fields)))
        return peer

    def node(self, **fields: Any) -> Peer:
        peer = self.dial(codec.to_node)
        self.nodes.append(peer)
        peer.send(NodeHello(credentials=credentials(KEY), node="here", **{"pid": self.process.pid, **fields}))
        return peer

    def control(self, engine: int, attempt: int = 0) -> Peer:
        peer = self.dial(codec.to_engine)
        peer.send(ControlHello(credentials=credentials(KEY), engine=engine, attempt=attempt))
        return peer

    def data(self, engine: int, rank: int = 0, **fields: Any) -> Peer:
        peer = self.dial(codec.to_engine)
        peer.send(EngineHello(credentials=credentials(KEY), engine=engine, rank=rank, pid=500 + engine, **fields))
        return peer
