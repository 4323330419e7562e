"""All records of one cluster in one place, with the few things that every chapter does to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fibernb.core.actors import Actor
from fibernb.core.clients import Client
from fibernb.core.commands import Command, TellClient, TellEngine
from fibernb.core.errorvalues import ErrorFactory
from fibernb.core.events import EngineExited
from fibernb.core.functions import Function, Functions
from fibernb.core.history import History
from fibernb.core.messages import CallActor, Forget, SignalActor, ToClient, ToEngine
from fibernb.core.nodes import Node
from fibernb.core.objects import Objects, Stream
from fibernb.core.placements import Placement
from fibernb.core.queueing import FairQueue
from fibernb.core.receipts import Receipt
from fibernb.core.replay import Replay
from fibernb.core.seats import Engine, IdleSeats, Seat
from fibernb.core.settings import CoreSettings
from fibernb.core.states import SeatState
from fibernb.core.tasks import Group, GroupKey, Queue, Task
from fibernb.core.timers import Timers
from fibernb.model import DEFAULT_OPTIONS, ClientId, Digest, EngineId, ObjectId, Rank, Result, TaskId, TaskOptions

_IDLE: Final = SeatState.IDLE  # (looking up a member costs more than all the rest, before Python 3.12)
EVERYDAY: Final = frozenset({(SeatState.IDLE, SeatState.BUSY), (SeatState.BUSY, SeatState.IDLE)})
INTERNAL_CLIENT: Final = 0  # owns replayed calls, and those that make actors
FIRST_EXTRA: Final = -2  # rank of the first seat beside the declared ones
EXTRAS: Final = ("extras", 0)
ENDS_KEPT: Final = 100


class Counts:
    """What has happened since the scheduler began."""

    __slots__ = ("failed", "finished", "refused")

    def __init__(self) -> None:
        self.finished = 0
        self.failed = 0
        self.refused = 0


class Orphan:
    """A result that came from before a restart of the hub, whose client has not asked for it yet."""

    __slots__ = ("receipt", "result")

    def __init__(self, result: Result, receipt: Receipt) -> None:
        self.result = result
        self.receipt = receipt


class Pool:
    """Engines beside the seats that run tasks of one environment on one node. ``starting``: seats without a ready one;
    ``asked``: how many are wanted to start now.
    """

    __slots__ = ("asked", "environment", "idle", "node", "starting")

    def __init__(self, node: str, environment: str) -> None:
        self.node = node
        self.environment = environment
        self.idle: dict[Rank, None] = {}
        self.starting: set[Rank] = set()
        self.asked = 0


class Scaling:
    """How many seats are declared, and by whom. ``maximum`` None: autoscaling is off."""

    __slots__ = ("idle_s", "maximum", "minimum", "seats")

    def __init__(self) -> None:
        self.seats = 0
        self.minimum = 0
        self.maximum: int | None = None
        self.idle_s = 0.0


class Board:
    """The state of a scheduler. Every record stands in exactly one table here, by its id."""

    def __init__(self, settings: CoreSettings, errors: ErrorFactory) -> None:
        self.settings = settings
        self.errors = errors
        self.started_at: float | None = None
        self.now = 0.0  # when what is being dealt with has happened
        self.commands: list[Command] = []
        self.timers = Timers()
        self.counts = Counts()
        self.stopped = False
        self.detached = False

        self.tasks: dict[TaskId, Task] = {}  # that have not ended
        self.groups: dict[GroupKey, Group] = {}  # that have such tasks
        self._spare: Group | None = None  # the last one that had none left: taken up again by the next call of its kind
        self.children: dict[TaskId, dict[Group, None]] = {}  # groups by the task that submitted them
        self.answers: dict[ObjectId, Result] = {}  # that are not acknowledged
        self.part_of: dict[ObjectId, TaskId] = {}  # further values of tasks that return several
        self.objects = Objects()
        self.history = History(settings.max_spans, settings.max_past_actors)
        self.streams: dict[TaskId, Stream] = {}  # of streaming tasks that have given something, or were taken from
        self.functions = Functions()
        self.internal = Client(INTERNAL_CLIENT, 0.0, None)
        self.internal.silent = True
        self.claimed = Group(  # of tasks that engines have and whose clients have not come back yet
            (INTERNAL_CLIENT, b"", None, b"", 0), self.internal, Function(b"", b"", ""), DEFAULT_OPTIONS, None
        )
        self.replay = Replay()
        self.replay_ids = 0

        self.plain = FairQueue()  # tasks that need a seat and nothing else
        self.special = FairQueue()  # tasks that need more
        self.stale: dict[Group, None] = {}  # groups with withdrawn tasks in their queues
        self.starving_since: float | None = None  # a special task does not fit since then
        self.roomier = False  # something has become free, or has come, since the special tasks were looked at

        self.clients: dict[ClientId, Client] = {}
        self.outgoing: dict[ClientId, Client] = {}  # with results in their outbox

        self.scaling = Scaling()
        self.nodes: dict[str, Node] = {}
        self.seats: dict[Rank, Seat] = {}
        self.engines: dict[EngineId, Engine] = {}
        self.ended: dict[EngineId, tuple[Engine, EngineExited]] = {}  # the last ones
        self.next_engine = 1
        self.wanted: dict[Rank, None] = {}  # seats that need an engine now
        self.idle = IdleSeats()
        self.hungry: dict[EngineId, Engine] = {}  # busy engines that may have room for a next batch
        self.deep: dict[EngineId, Engine] = {}  # engines that may hold calls which have not begun
        self.interrupted: dict[EngineId, Engine] = {}  # engines with interrupted tasks in their line
        self.draining: dict[Rank, None] = {}  # seats that are declared no more
        self.awake: dict[Rank, None] = {}  # seats whose pinned tasks need a look
        self.forgetful: dict[EngineId, Engine] = {}  # engines that may forget more than they know

        self._no_vehicles()

        self.seats_changed = False
        self.lost_ranks: dict[Rank, None] = {}  # since the last SeatsChanged
        self.problems: dict[str, str] = {}  # why seats do not fill, by kind

        self._no_past()

    def _no_past(self) -> None:
        """The tables of what comes from a hub before this one."""
        self.recovering: dict[EngineId, None] = {}  # engines from before a restart that have not told all
        self.hold_starts = False  # after a restart: until it is known how many seats there are to be
        self.unsettled = False  # clients of the hub before this one may still come back
        self.orphans: dict[TaskId, Orphan] = {}

    def _no_vehicles(self) -> None:
        """The tables of what runs beside the seats."""
        self.pools: dict[tuple[str, str], Pool] = {}  # by node and environment
        self.free_ranks: list[Rank] = []  # below 0 and above `next_extra`, as a heap, highest first
        self.next_extra = FIRST_EXTRA
        self.actors: dict[ObjectId, Actor] = {}
        self.named: dict[tuple[str, str], Actor] = {}  # that live, by namespace and name
        self.calling: dict[ObjectId, None] = {}  # actors that may have calls to send
        self.released = False  # a client has released something, since the last drain
        self.leaving: dict[ObjectId, None] = {}  # actors that may not be needed any more
        self.early_calls: dict[ObjectId, list[tuple[Client, CallActor]]] = {}  # of actors that may still come back
        self.exit_codes: dict[EngineId, int] = {}  # of engines that ended shortly before this hub began
        self.early_signals: list[SignalActor] = []  # likewise
        self.early_blocked: set[TaskId] = set()  # tasks that wait and that no engine has told of yet
        self.placements: dict[ObjectId, Placement] = {}
        self.unheld_placements: dict[ObjectId, None] = {}
        self.unplaced: dict[ObjectId, None] = {}  # placement groups that are not reserved
        self.made: dict[ObjectId, Result] = {}  # what tasks that make actors came to, since the last drain

    def tell_client(self, client: Client, message: ToClient) -> None:
        self.commands.append(TellClient(client=client.id, message=message))

    def tell_engine(self, engine: Engine, message: ToEngine) -> None:
        self.commands.append(TellEngine(engine=engine.id, message=message))

    def queue_of(self, group: Group) -> Queue:
        if group.calls is not None:
            return group.calls
        return self.plain if group.plain else self.special

    def group(
        self, client: Client, function: Digest, options: TaskOptions, parent: TaskId | None, actor: ObjectId = 0
    ) -> Group | None:
        """The group of such calls, made if there is none; None when the function's code is not known."""
        key = (client.id, function, parent, msgspec.msgpack.encode(options), actor)
        group = self.groups.get(key)
        if group is None:
            known = self.functions.by_digest.get(function)
            if known is None:
                return None
            spare = self._spare
            if spare is not None and spare.key == key and spare.client is client and spare.function is known:
                group, group.call_bytes = spare, 1
            else:
                group = Group(key, client, known, options, parent, actor)
            self.groups[key] = group
            if actor:
                group.calls = self.actors[actor].calls
                self.actors[actor].groups[group] = None
            if parent is not None:
                self.children.setdefault(parent, {})[group] = None
        elif group.client is not client:
            group.client = client  # it had ended, and left tasks that others need
        return group

    def drop_group(self, group: Group) -> None:
        """A group's last task has ended."""
        if self.groups.get(group.key) is group:
            del self.groups[group.key]
            self._spare = None if group.tied or group.listed else group
        if group.actor in self.actors:
            self._leave_actor(self.actors[group.actor], group)
        if group.parent is not None:
            siblings = self.children.get(group.parent)
            if siblings is not None:
                siblings.pop(group, None)
                if not siblings:
                    del self.children[group.parent]

    def _leave_actor(self, actor: Actor, group: Group) -> None:
        actor.groups.pop(group, None)
        if actor.unheld and not actor.groups:
            self.leaving[actor.id] = None

    def engine_of(self, rank: Rank) -> Engine:
        """The engine of a seat that has one."""
        engine = self.seats[rank].engine
        assert engine is not None
        return engine

    def move_seat(self, seat: Seat, state: SeatState, now: float) -> None:
        """Change a seat's state, and the tables that follow it."""
        before = seat.state
        seat.move(state, now)
        if state is _IDLE:
            self.roomier = True
        if seat.rank < 0:
            self._move_extra(seat, before, now)
            return
        if before is _IDLE:
            self.idle.discard(seat.rank)
            self._count_idle(seat.engine, -1)
        elif state is _IDLE:
            self.idle.add(seat.rank)
            self._count_idle(seat.engine, 1)
        if (before, state) not in EVERYDAY:
            self.seats_changed = True

    def _move_extra(self, seat: Seat, before: SeatState, now: float) -> None:
        """A seat beside the declared ones. One that falls idle is looked at some time later."""
        if seat.actor:
            return
        pool = self.pools[seat.node, seat.environment]
        if before is _IDLE:
            del pool.idle[seat.rank]
        elif seat.state is SeatState.WANTED:
            pool.starting.add(seat.rank)
        elif seat.state is _IDLE:
            pool.starting.discard(seat.rank)
            pool.idle[seat.rank] = None
            self.timers.set_default(EXTRAS, now + self.settings.extra_idle_s)

    def _count_idle(self, engine: Engine | None, change: int) -> None:
        if engine is not None and engine.node in self.nodes:
            self.nodes[engine.node].idle += change

    def settle(self, receipt: Receipt) -> None:
        """Someone holds on to a message's results no more."""
        if receipt.settle():
            self.may_forget(receipt.receipts.engine)

    def note_end(self, engine: Engine, event: EngineExited) -> None:
        """Keep for a while how an engine has ended."""
        self.ended[engine.id] = engine, event
        if len(self.ended) > ENDS_KEPT:
            del self.ended[next(iter(self.ended))]

    def may_forget(self, engine_id: EngineId) -> None:
        """An engine may forget more than it knows: it is told with its next call, or soon."""
        engine = self.engines.get(engine_id)
        if engine is not None:
            self.forgetful[engine_id] = engine

    def tell_to_forget(self) -> None:
        """Tell all engines that have not been told otherwise."""
        for engine in self.forgetful.values():
            receipts = engine.receipts
            receipts.told = receipts.forget
            self.tell_engine(engine, Forget(forget=receipts.forget))
        self.forgetful.clear()

    def users(self) -> Iterator[Client]:
        """Clients that keep the cluster alive: those that do not live in an engine."""
        return (client for client in self.clients.values() if client.engine is None)
