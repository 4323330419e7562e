"""Events that the driver itself reports to the scheduler: they never travel as messages."""

from __future__ import annotations

from fibernb.core.messages import ActorRecord
from fibernb.model import ClientId, EngineId, Rank, Resources, Struct, TaskId


class ClientAttached(Struct, frozen=True, kw_only=True):
    """A client has connected, or connected again. ``resumes``: it was attached to this cluster before.

    ``engine``: the one that the client lives in, if it does. Such a client ends with its engine and does not keep the
    cluster alive.
    """

    client: ClientId
    lease_s: float
    resumes: bool = False
    engine: EngineId | None = None


class ClientGone(Struct, frozen=True, kw_only=True):
    """A client's link broke without a goodbye: its lease runs from now."""

    client: ClientId


class EngineAttached(Struct, frozen=True, kw_only=True):
    """An engine can take work.

    After a break of the link it tells what it has: ``received`` calls in all, of which ``holds`` are not finished
    (the first one runs, if ``running``). Then follow ``redelivers`` `Done` messages with results that are not known
    to have reached their client; nothing may be decided about those tasks before they have come.
    """

    engine: EngineId
    rank: Rank
    pid: int
    received: int = 0
    holds: list[TaskId] = []
    running: bool = False
    redelivers: int = 0
    actor: ActorRecord | None = None  # that lives in it


class EngineUnreachable(Struct, frozen=True, kw_only=True):
    """An engine's link broke though its process is not known to have ended; the process is told to end."""

    engine: EngineId


class EngineExited(Struct, frozen=True, kw_only=True):
    """An engine's process has ended. ``exit_code``: negative is a signal; None is unknown."""

    engine: EngineId
    exit_code: int | None
    last_output: str = ""
    evidence: str = ""


class StartFailed(Struct, frozen=True, kw_only=True):
    """Engines could not be started. The scheduler tries again later and tells why meanwhile."""

    engines: list[EngineId]
    reason: str


class StoreLost(Struct, frozen=True, kw_only=True):
    """The store of a node has ended, with all blocks of this generation (see `fibernb.model.BlockId`)."""

    generation: int
    reason: str


class EngineMemory(Struct, frozen=True, kw_only=True):
    engine: EngineId
    used_bytes: int


class MemoryLow(Struct, frozen=True, kw_only=True):
    """A node is close to its limit of memory: an engine must go before the system chooses one."""

    node: str
    used_bytes: int
    limit_bytes: int
    engines: list[EngineMemory]


class NodeUp(Struct, frozen=True, kw_only=True):
    """A node can seat engines. ``slots`` None: as many as are wanted. ``capacity`` counts beyond one cpu a seat."""

    node: str
    slots: int | None = None
    capacity: Resources = Resources(milli_cpus=0)


class NodeLost(Struct, frozen=True, kw_only=True):
    node: str
    reason: str


class LiveEngine(Struct, frozen=True, kw_only=True):
    engine: EngineId
    rank: Rank
    pid: int


class RecoverFrom(Struct, frozen=True, kw_only=True):
    """First event of a restarted hub: these engines live and will attach; decide nothing about tasks before they have.

    Who has not attached after ``patience_s`` is replaced. ``ended``: exit codes of engines that have ended lately.
    """

    node: str
    engines: list[LiveEngine]
    ended: dict[EngineId, int] = {}
    patience_s: float = 5.0
