"""What the scheduler hears and says. These are also the wire messages: one set of types.

Grouped by direction. The events and commands that never travel (a process ended, start these engines) stand
in `fibernb.core.events` and `fibernb.core.commands`.
"""

from __future__ import annotations

from typing import TypeAlias

from fibernb.model import (
    DEFAULT_OPTIONS,
    Bar,
    Call,
    Digest,
    EngineId,
    ObjectId,
    Rank,
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
    """Calls of one function under one set of options, to be run wherever there is room."""

    function: Digest
    calls: list[Call]
    options: TaskOptions = DEFAULT_OPTIONS
    parent: TaskId | None = None  # the task that submits this, when an engine does


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
    """

    keys: tuple[str, ...]
    function: Digest
    args: list[bytes]  # one for all, or one for each of the ranks
    ranks: list[Rank] | None = None


class PutObjects(Message, frozen=True, kw_only=True):
    """Values of objects that calls refer to; kept until released, or until the client has gone."""

    objects: list[Result]


class Release(Message, frozen=True, kw_only=True):
    """The client holds no reference to these objects any more."""

    objects: list[ObjectId]


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


class HubStops(Message, frozen=True, kw_only=True):
    """The cluster ends, and why."""

    reason: str


# ---- hub to engine, data socket ------------------------------------------------------------------------


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


# ---- hub to engine, control socket ---------------------------------------------------------------------


class Recall(Message, frozen=True, kw_only=True):
    """Give back the calls from this position on that have not been started."""

    position: int
    until: int  # exclusive


class Interrupt(Message, frozen=True, kw_only=True):
    """Raise KeyboardInterrupt in this task if it runs now; if it has not begun, do not begin it."""

    task: TaskId


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
    | Release
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
ToClient: TypeAlias = Deliver | Recovered | SeatsChanged | Status | HubStops | Output | Display | Progress
EngineMessage: TypeAlias = Done | Started | Recalled | Output | Display | Progress
ToEngine: TypeAlias = Run | Recall | Interrupt | Forget | Exit
