"""What the scheduler hears and says. These are also the wire messages: one set of types.

Grouped by direction. The events and commands that never travel (a process ended, start these engines) stand
in `fibernb.core.events` and `fibernb.core.commands`.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from fibernb.model import (
    DEFAULT_OPTIONS,
    ActorOptions,
    Bar,
    BlockId,
    Call,
    Digest,
    EngineId,
    ObjectId,
    Rank,
    Resources,
    Result,
    Struct,
    TaskId,
    TaskOptions,
)


class Message(Struct, frozen=True, kw_only=True, tag=True):
    """Base of everything that travels between processes."""


# ---- client to hub -------------------------------------------------------------------------------------


class DefineFunction(Message, frozen=True, kw_only=True):
    """The code of a function, once, before the first call that names its digest."""

    digest: Digest
    code: bytes
    name: str = ""


class Submit(Message, frozen=True, kw_only=True):
    """Calls of one function under one set of options, to be run wherever there is room.

    ``begun_on``: the engine that the client has sent them to itself, so that they may have begun there; it knows them
    by their ids.
    """

    function: Digest
    calls: list[Call]
    options: TaskOptions = DEFAULT_OPTIONS
    parent: TaskId | None = None  # the task that submits this, when an engine does
    begun_on: EngineId = 0


class SubmitPinned(Message, frozen=True, kw_only=True):
    """One call on each of several ranks, in the order of arrival there; never retried elsewhere.

    Task ``first + i`` runs on ``ranks[i]``. ``args`` holds one pickle for all, or one for each rank. Each seat runs
    its pinned tasks one at a time, before ordinary ones. A rank that has a seat not yet ready waits for it; a rank
    that has no seat fails at once.
    """

    function: Digest
    first: TaskId
    ranks: list[Rank]
    args: list[bytes]
    deps: tuple[ObjectId, ...] = ()
    options: TaskOptions = DEFAULT_OPTIONS
    parent: TaskId | None = None


class Remember(Message, frozen=True, kw_only=True):
    """A call to repeat on every new engine of the ranks (None: every rank) before anything else runs there.

    It is dropped when later ones have taken over all of its ``keys`` for the same ranks. Nothing is run now.
    ``refs`` are objects that its arguments stand in; they are kept as long as it is.
    """

    keys: tuple[str, ...]
    function: Digest
    args: list[bytes]  # one for all, or one for each of the ranks
    ranks: list[Rank] | None = None
    refs: tuple[ObjectId, ...] = ()


class PutObjects(Message, frozen=True, kw_only=True):
    """Values of objects that calls refer to; kept until released, or until the client has gone."""

    objects: list[Result]


class Hold(Message, frozen=True, kw_only=True):
    """The client has references to these objects, which it got from others."""

    objects: list[ObjectId]


class Fetch(Message, frozen=True, kw_only=True):
    """Deliver these objects to this client, which holds them, as soon as they are there.

    ``lost``: blocks of them that the client has found to be gone, so that they must be made again first.
    """

    objects: list[ObjectId]
    lost: list[BlockId] = []


class Release(Message, frozen=True, kw_only=True):
    """The client holds no reference to these objects any more.

    It holds what it has put, what it has told by `Hold`, actors and placement groups that it has made, the items of
    its streaming tasks that were delivered, and those results of its tasks that stand in blocks or contain
    references.
    """

    objects: list[ObjectId]


class Consume(Message, frozen=True, kw_only=True):
    """The client has taken so many items of a streaming task in all (also to the engine that runs it)."""

    task: TaskId
    items: int


class Blocked(Message, frozen=True, kw_only=True):
    """This task waits for other tasks from now on: its seat is lent."""

    task: TaskId


class Unblocked(Message, frozen=True, kw_only=True):
    """The task goes on."""

    task: TaskId


class CreateActor(Message, frozen=True, kw_only=True):
    """Make an actor: an instance of the class whose code ``function`` names, in an engine of its own.

    With a ``request`` there is an `ActorFound` at once, which names the actor that there is if the name is taken and
    ``get_if_exists``. The object ``actor`` is there (None) once the instance is, or fails with what its constructor
    raised.
    """

    actor: ObjectId
    function: Digest
    args: bytes
    deps: tuple[ObjectId, ...] = ()
    refs: tuple[ObjectId, ...] = ()
    options: ActorOptions = ActorOptions()
    about: bytes = b""  # what a handle needs to know, pickled
    parent: TaskId | None = None
    request: int = 0
    get_if_exists: bool = False


class CallActor(Message, frozen=True, kw_only=True):
    """Calls of one method, run in the order of arrival from this client; ``function`` is a pickled
    `fibernb.engine.actors.Method`.

    ``options.max_retries`` counts how often a call that may have begun is run again on a restarted actor.
    ``begun_on``: as in `Submit`.
    """

    actor: ObjectId
    function: Digest
    calls: list[Call]
    options: TaskOptions = DEFAULT_OPTIONS
    parent: TaskId | None = None
    begun_on: EngineId = 0


class Meet(Message, frozen=True, kw_only=True):
    """Which engine may the client send calls to itself, one at a time: that of an actor, or one with nothing to do?

    Answered by `Met`; the engine gets an `OpenDoor`.
    """

    request: int
    actor: ObjectId = 0


class KillActor(Message, frozen=True, kw_only=True):
    """End an actor at once, or give it a new engine as if its own had died."""

    actor: ObjectId
    no_restart: bool = True


class HoldActor(Message, frozen=True, kw_only=True):
    """As `Hold`, for an actor that was in this engine: if that has ended while there was no hub, the actor has too."""

    actor: ObjectId
    engine: EngineId


class SignalActor(Message, frozen=True, kw_only=True):
    """Send a signal to the process of an actor. One that has no process yet ends as if the signal had killed it.

    Answered by `Synced`.
    """

    request: int
    actor: ObjectId
    signal: Annotated[int, msgspec.Meta(ge=1)]


class FindActor(Message, frozen=True, kw_only=True):
    """Which actor has this name? Answered by `ActorFound`."""

    request: int
    name: str
    namespace: str = ""


class CreateGroup(Message, frozen=True, kw_only=True):
    """Reserve resources on nodes, all of them or none: a placement group. ``strategy``: PACK, SPREAD, STRICT_PACK or
    STRICT_SPREAD. The object ``group`` is there (None) once they are reserved.
    """

    group: ObjectId
    bundles: list[Resources]
    strategy: str = "PACK"
    name: str = ""
    detached: bool = False


class RemoveGroup(Message, frozen=True, kw_only=True):
    """Give the resources of a placement group back. Tasks and actors in it end."""

    group: ObjectId


class StateRequest(Message, frozen=True, kw_only=True):
    """Ask for rows of what there is, or was: see `State`."""

    request: int
    kind: str  # "tasks", "actors", "all actors" (past ones too), "objects", "engines", "groups", "nodes" or "spans"
    limit: int = 10_000
    where: dict[str, str] = {}  # a row's fields must be equal to these, as text


class Sync(Message, frozen=True, kw_only=True):
    """Answered by `Synced` when all that the client has sent before has been taken in."""

    request: int


class Cancel(Message, frozen=True, kw_only=True):
    """Stop these tasks and, if asked, everything that they submitted.

    A running task gets a KeyboardInterrupt; one that has not ended after the grace, or that is cancelled a second
    time, or with ``force``, loses its engine.
    """

    tasks: list[TaskId]
    force: bool = False
    recursive: bool = True


class Acknowledge(Message, frozen=True, kw_only=True):
    """All `Deliver` up to this sequence number have been taken in; they may be forgotten."""

    sequence: int


class Scale(Message, frozen=True, kw_only=True):
    """Declare how many seats there are: ranks 0 to seats - 1. Idle engines leave first, busy ones when done."""

    seats: int


class Autoscale(Message, frozen=True, kw_only=True):
    """Follow the queue between two bounds. ``maximum`` None turns it off and keeps the seats there are."""

    minimum: int = 0
    maximum: int | None = None
    idle_s: float = 60.0


class RestartSeats(Message, frozen=True, kw_only=True):
    """Give these ranks fresh engines. What they were running counts as lost (and is retried elsewhere if it may be)."""

    ranks: list[Rank]


class InterruptRanks(Message, frozen=True, kw_only=True):
    """Interrupt whatever runs on these ranks, as `Cancel` would its tasks."""

    ranks: list[Rank]


class StatusRequest(Message, frozen=True, kw_only=True):
    request: int


class Detach(Message, frozen=True, kw_only=True):
    """Keep the cluster when this client has gone, until it is stopped."""


class Goodbye(Message, frozen=True, kw_only=True):
    """The client leaves for good. ``stop``: the cluster ends with it, unless others are attached."""

    stop: bool = False


class Stop(Message, frozen=True, kw_only=True):
    """End the cluster now, whoever is attached."""


# ---- hub to client -------------------------------------------------------------------------------------


class Deliver(Message, frozen=True, kw_only=True):
    """Results, in a numbered message that stays in the hub until it is acknowledged."""

    sequence: int
    results: list[Result]


class Recovered(Message, frozen=True, kw_only=True):
    """The answer to `ClientHello`: the hub takes what this client still waits for and has not been told of."""

    fresh: bool  # a hub that knows nothing of this client: submit again what is not answered


class ActorFound(Message, frozen=True, kw_only=True):
    """``actor`` 0: there is none, and ``problem`` says why. ``about`` is that of its `CreateActor`."""

    request: int
    actor: ObjectId = 0
    about: bytes = b""
    problem: str = ""


class Met(Message, frozen=True, kw_only=True):
    """``engine`` 0: there is none, now or ever."""

    request: int
    engine: EngineId = 0


class State(Message, frozen=True, kw_only=True):
    """Rows as a JSON list of objects, newest first where there is an order, at most as many as were asked for."""

    request: int
    rows: bytes
    total: int  # how many there are


class Synced(Message, frozen=True, kw_only=True):
    request: int


class SeatsChanged(Message, frozen=True, kw_only=True):
    """How many seats there are and how many have an engine. Sent when it changes, coalesced."""

    seats: int  # declared
    ready: int  # idle or busy
    starting: int
    lost: list[Rank] = []  # ranks that lost their engine since the last message of this kind
    problem: str = ""  # why seats are not filling, if they are not


class SeatStatus(Struct, frozen=True, kw_only=True):
    rank: Rank
    engine: EngineId
    state: str  # name of a seat state
    pid: int = 0
    task: TaskId | None = None
    function: str = ""  # what runs there
    queued: int = 0  # pinned and sent tasks that wait there
    deaths: int = 0  # how many engines this seat has lost
    busy_s: float = 0.0  # how long the current task has run


class NodeStatus(Struct, frozen=True, kw_only=True):
    name: str
    alive: bool
    total: Resources
    free: Resources


class Status(Message, frozen=True, kw_only=True):
    request: int
    seats: int
    ready: int
    busy: int
    starting: int
    waiting: int  # tasks whose inputs do not exist yet
    queued: int
    running: int  # sent or running
    finished: int  # since the hub started
    failed: int
    refused: int  # messages that were refused
    engines: list[SeatStatus]
    clients: int
    pending: list[str]  # why tasks or seats wait, one reason a line
    minimum: int | None = None  # of autoscaling, if it is on
    maximum: int | None = None
    uptime_s: float = 0.0
    node: str = ""
    pid: int = 0  # of the hub
    problem: str = ""
    nodes: list[NodeStatus] = []
    actors: int = 0  # that live
    extra: int = 0  # engines beside the seats: of actors, and of tasks that need them
    objects: int = 0  # that are kept for their holders


class HubStops(Message, frozen=True, kw_only=True):
    """The cluster ends, and why."""

    reason: str


# ---- hub to engine, data socket ------------------------------------------------------------------------


class ActorRecord(Struct, frozen=True, kw_only=True):
    """What it takes to make an actor; its engine keeps it, and tells it to a hub that has been started anew."""

    create: CreateActor
    code: bytes  # of the class
    restarts: int = 0  # so far
    checkpoint: bytes | None = None  # what it goes on from


class Run(Message, frozen=True, kw_only=True):
    """Calls to run in order, of one function.

    Every call that an engine is ever sent has a position: the first one of this message has ``position``. ``code``
    comes with the first use of a function. ``inputs`` are the objects that the calls refer to. ``forget``: results of
    `Done` messages up to that sequence number have reached their client.
    """

    function: Digest
    calls: list[Call]
    position: int
    code: bytes | None = None
    options: TaskOptions = DEFAULT_OPTIONS
    inputs: list[Result] = []
    forget: int = 0
    gpus: tuple[int, ...] = ()  # numbers of those that the calls may use
    actor: ActorRecord | None = None  # make this actor: ``function`` is its class


# ---- hub to engine, control socket ---------------------------------------------------------------------


class Recall(Message, frozen=True, kw_only=True):
    """Give back the calls from this position on that have not been started."""

    position: int
    until: int  # exclusive


class Interrupt(Message, frozen=True, kw_only=True):
    """Raise KeyboardInterrupt in this task if it runs now; if it has not begun, do not begin it."""

    task: TaskId


class OpenDoor(Message, frozen=True, kw_only=True):
    """A client is about to dial: see `fibernb.wire.direct`."""


class EndActor(Message, frozen=True, kw_only=True):
    """Nobody needs the actor any more: exit in good order when the calls that were sent are done."""


class Forget(Message, frozen=True, kw_only=True):
    """As ``Run.forget``, when there is nothing to run."""

    forget: int


class Exit(Message, frozen=True, kw_only=True):
    """End in good order."""


# ---- engine to hub -------------------------------------------------------------------------------------


class Done(Message, frozen=True, kw_only=True):
    """Results in the order of running. ``run_s``: seconds of the user's code in all of them together."""

    sequence: int
    results: list[Result]
    run_s: float = 0.0
    began_s: float = 0.0  # when the first of them began, on the host's monotonic clock


class Ran(Message, frozen=True, kw_only=True):
    """Calls that clients have sent themselves, and that have come to a value. ``name``: of the last one; the times are
    as those of `Done`.
    """

    tasks: list[TaskId]
    name: str
    run_s: float
    began_s: float


class Checkpoint(Message, frozen=True, kw_only=True):
    """What the actor of this engine can be made again from; sent before the `Done` of the call that it follows."""

    state: bytes


class ActorExits(Message, frozen=True, kw_only=True):
    """The actor of this engine has ended itself; the process exits when it is told to."""

    reason: str = "it called exit_actor"


class ProcessExits(Message, frozen=True, kw_only=True):
    """This engine has nothing more to say, and ends by itself as soon as it is told to."""


class Started(Message, frozen=True, kw_only=True):
    """The call at this position has begun. Sent when it is the first after idling, or 50 ms after the last sign of
    life.
    """

    position: int


class Recalled(Message, frozen=True, kw_only=True):
    """The answer to `Recall`: calls from ``position`` to ``until`` (exclusive) will not be run here."""

    position: int
    until: int


# ---- engine to hub to client: what a task says while it runs -------------------------------------------


class Output(Message, frozen=True, kw_only=True):
    """Text that a task wrote. ``task`` 0: written when nothing ran."""

    task: TaskId
    rank: Rank
    sequence: int  # counts the Output, Display and Progress messages of a task together, from 0
    stream: str  # "stdout" or "stderr"
    text: str


class Display(Message, frozen=True, kw_only=True):
    """Rich output, as JSON of Jupyter's ``data``, ``metadata`` and ``transient``."""

    task: TaskId
    rank: Rank
    sequence: int
    kind: str  # "display", "update" or "clear"
    content: bytes


class Progress(Message, frozen=True, kw_only=True):
    """The bars of a task that have changed."""

    task: TaskId
    rank: Rank
    sequence: int
    bars: list[Bar]


Said: TypeAlias = Output | Display | Progress

ClientMessage: TypeAlias = (
    DefineFunction
    | Submit
    | SubmitPinned
    | Remember
    | PutObjects
    | Hold
    | Fetch
    | Release
    | Consume
    | Blocked
    | Unblocked
    | CreateActor
    | CallActor
    | Meet
    | KillActor
    | HoldActor
    | SignalActor
    | FindActor
    | CreateGroup
    | RemoveGroup
    | StateRequest
    | Sync
    | Cancel
    | Acknowledge
    | Scale
    | Autoscale
    | RestartSeats
    | InterruptRanks
    | StatusRequest
    | Detach
    | Goodbye
    | Stop
)
ToClient: TypeAlias = (
    Deliver
    | Recovered
    | ActorFound
    | Met
    | State
    | Synced
    | SeatsChanged
    | Status
    | HubStops
    | Output
    | Display
    | Progress
)
EngineMessage: TypeAlias = (
    Done | Ran | Started | Recalled | Checkpoint | ActorExits | ProcessExits | Output | Display | Progress
)
ToEngine: TypeAlias = Run | OpenDoor | Recall | Interrupt | Consume | EndActor | Forget | Exit
