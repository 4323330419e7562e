"""The first message on every link, its answer, and the talk between hub and node process.

Nothing that a peer sends is looked at before its hello has been checked: the key of the cluster, the protocol number
and the minor version of Python (see `fibernb.wire.admission`).
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from fibernb.core.events import EngineMemory, LiveEngine
from fibernb.core.messages import ActorRecord, Message
from fibernb.model import ClientId, EngineId, Rank, Struct, TaskId

PROTOCOL: Final = 2  # both sides must speak the same


class Credentials(Struct, frozen=True, kw_only=True):
    key: str  # of the cluster, from its connection file
    version: str  # of FiberNB
    protocol: int = PROTOCOL
    python: tuple[int, int] = (0, 0)  # major, minor


class ClientHello(Message, frozen=True, kw_only=True):
    """``instance`` tells two processes apart that picked the same client number."""

    credentials: Credentials
    client: ClientId
    instance: str
    lease_s: Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
    pid: int = 0
    host: str = ""
    resumes: bool = False  # was attached to this cluster before
    engine: EngineId | None = None  # the one that the client lives in, if it does


class EngineHello(Message, frozen=True, kw_only=True):
    """Opens an engine's data socket; the fields are those of `fibernb.core.events.EngineAttached`."""

    credentials: Credentials
    engine: EngineId
    rank: Rank
    pid: int
    received: int = 0
    holds: list[TaskId] = []
    running: bool = False
    redelivers: int = 0
    actor: ActorRecord | None = None
    attempt: int = 0


class ControlHello(Message, frozen=True, kw_only=True):
    """Opens an engine's control socket. It comes before the data socket's `EngineHello`.

    ``attempt``: counts how often the engine has dialled; its two links belong together if they are of one attempt.
    """

    credentials: Credentials
    engine: EngineId
    attempt: int = 0


class NodeHello(Message, frozen=True, kw_only=True):
    """The process that forks engines on a host."""

    credentials: Credentials
    node: str
    pid: int
    engines: list[LiveEngine] = []  # that live already, when the hub is a new one
    ended: dict[EngineId, int] = {}  # exit codes of engines that have ended lately


Hello: TypeAlias = ClientHello | EngineHello | ControlHello | NodeHello


class Welcome(Message, frozen=True, kw_only=True):
    cluster: str
    version: str
    hub_pid: int
    max_seats: int = 1_000_000  # more than that cannot be scaled to, because of ``limit``
    limit: str = ""


class Refused(Message, frozen=True, kw_only=True):
    """The hub does not talk to this peer, and hangs up. ``kind``: "auth", "version", "protocol" or "taken"."""

    kind: str
    reason: str


# ---- hub to node ----------------------------------------------------------------------------------------


class Seat(Struct, frozen=True, kw_only=True):
    engine: EngineId
    rank: Rank  # below 0: beside the seats
    environment: str = ""


class Fork(Message, frozen=True, kw_only=True):
    seats: list[Seat]


class EndProcesses(Message, frozen=True, kw_only=True):
    """SIGKILL to these engines."""

    engines: list[EngineId]


class SignalProcess(Message, frozen=True, kw_only=True):
    """A signal to this engine."""

    engine: EngineId
    signal: int


class EndNode(Message, frozen=True, kw_only=True):
    """End all engines and the node itself, at once."""


# ---- node to hub ----------------------------------------------------------------------------------------


class ProcessExited(Message, frozen=True, kw_only=True):
    engine: EngineId
    rank: Rank
    exit_code: int  # negative: the signal
    last_output: str = ""
    evidence: str = ""  # such as "peak memory 812 MB"


class ForkFailed(Message, frozen=True, kw_only=True):
    engines: list[EngineId]
    reason: str


class StoreEnded(Message, frozen=True, kw_only=True):
    """The store process of this node has ended; its blocks are gone."""

    generation: int
    reason: str


class MemoryShort(Message, frozen=True, kw_only=True):
    """As `fibernb.core.events.MemoryLow`."""

    used_bytes: int
    limit_bytes: int
    engines: list[EngineMemory]


ToNode: TypeAlias = Welcome | Refused | Fork | EndProcesses | SignalProcess | EndNode
NodeMessage: TypeAlias = ProcessExited | ForkFailed | StoreEnded | MemoryShort
