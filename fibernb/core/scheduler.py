"""The door to the scheduler: messages and events in, commands out.

`client_message`, `engine_message` and `handle` only change state. `drain` fires the timers that are due, decides, and
hands over the commands; a driver calls it once after each poll, so that whatever arrived together is decided
together, and makes larger batches. `next_wakeup` tells when it must be called again though nothing has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from fibernb.core import (
    acting,
    attending,
    auxiliary,
    cancelling,
    cycles,
    dispatching,
    grouping,
    holding,
    lending,
    meeting,
    memory,
    recovering,
    remaking,
    reporting,
    reviving,
    rows,
    scaling,
    seating,
    signalling,
    streams,
    submitting,
    taking,
)
from fibernb.core.board import Board
from fibernb.core.clients import Client
from fibernb.core.commands import Command, FreeBlocks, KeepBlocks
from fibernb.core.errorvalues import ErrorFactory, ErrorValues
from fibernb.core.events import (
    ClientAttached,
    ClientGone,
    EngineAttached,
    EngineExited,
    EngineUnreachable,
    MemoryLow,
    NodeLost,
    NodeUp,
    RecoverFrom,
    StartFailed,
    StoreLost,
)
from fibernb.core.messages import (
    Acknowledge,
    ActorExits,
    Autoscale,
    Blocked,
    CallActor,
    Cancel,
    Checkpoint,
    ClientMessage,
    Consume,
    CreateActor,
    CreateGroup,
    DefineFunction,
    Detach,
    Done,
    EngineMessage,
    Exit,
    Fetch,
    FindActor,
    Goodbye,
    Hold,
    HoldActor,
    InterruptRanks,
    KillActor,
    Meet,
    ProcessExits,
    PutObjects,
    Ran,
    Recalled,
    Release,
    Remember,
    RemoveGroup,
    RestartSeats,
    Scale,
    SignalActor,
    Started,
    StateRequest,
    StatusRequest,
    Stop,
    Submit,
    SubmitPinned,
    Sync,
    Synced,
    Unblocked,
)
from fibernb.core.seats import Engine
from fibernb.core.settings import CoreSettings
from fibernb.model import ClientId, EngineId

Event: TypeAlias = (
    ClientAttached
    | ClientGone
    | EngineAttached
    | EngineUnreachable
    | EngineExited
    | StartFailed
    | NodeUp
    | NodeLost
    | MemoryLow
    | RecoverFrom
    | StoreLost
)

FORGET: Final = ("forget", 0)


class Scheduler:
    """Decides what runs where and when. See the package for the theory.

    Parameters
    ----------
    settings : see `CoreSettings`.
    errors : makes the bytes of error values; by default those of `fibernb.errors`.
    """

    def __init__(self, settings: CoreSettings, errors: ErrorFactory | None = None) -> None:
        self._board = Board(settings, errors if errors is not None else ErrorValues())

    # ---- what happens ------------------------------------------------------------------------------------

    def client_message(self, client: ClientId, message: ClientMessage, now: float) -> None:
        """A client has said something. Who is not attached is not heard."""
        self._board.now = now
        known = self._board.clients.get(client)
        if known is None:
            self._board.counts.refused += 1
        else:
            _hear(self._board, known, message, now)

    def engine_message(self, engine: EngineId, message: EngineMessage, now: float) -> None:
        """An engine has said something. Who is not attached, or whose end is known, is not heard."""
        self._board.now = now
        known = self._board.engines.get(engine)
        if known is None or not known.attached:
            self._board.counts.refused += not self._was_let_go(engine, known)
        elif isinstance(message, Done):
            taking.take_done(self._board, known, message, now)
            if known.redelivers:
                recovering.redelivered(self._board, known)
        elif isinstance(message, Ran):
            taking.take_ran(self._board, known, message, now)
        elif isinstance(message, Started):
            taking.take_started(known, message, now)
        elif isinstance(message, Recalled):
            taking.take_recalled(self._board, known, message, now)
        elif isinstance(message, Checkpoint):
            acting.take_checkpoint(self._board, known, message)
        elif isinstance(message, ActorExits):
            acting.take_exits(self._board, known, message, now)
        elif isinstance(message, ProcessExits):
            self._board.tell_engine(known, Exit())
        else:
            taking.take_said(self._board, message)

    def _was_let_go(self, engine: EngineId, known: Engine | None) -> bool:
        """Whether an engine only does not know yet that it is not wanted any more."""
        return known.killed if known is not None else engine < self._board.next_engine

    def handle(self, event: Event, now: float) -> None:
        """Something has happened to a client, an engine or a node."""
        self._begin(now)
        _happen(self._board, event, now)

    # ---- what follows ------------------------------------------------------------------------------------

    def drain(self, now: float) -> list[Command]:
        """Decide, and return what is to be done, in this order."""
        board = self._board
        board.now = now
        if board.started_at is None:
            self._begin(now)
        while not board.stopped and (due := board.timers.pop_due(now)) is not None:
            _fire(board, *due, now)
        if not board.stopped:
            _decide(board, now)
        commands, board.commands = board.commands, []
        return commands

    def next_wakeup(self, now: float) -> float | None:
        """When `drain` must be called next, if nothing happens before; None: only when something has."""
        if self._board.commands:
            return now
        return None if self._board.stopped else self._board.timers.next()

    def _begin(self, now: float) -> None:
        board = self._board
        board.now = now
        if board.started_at is None:
            board.started_at = now
            board.timers.set(attending.EMPTY, now + board.settings.lease_s)


def _decide(board: Board, now: float) -> None:
    _follow_up(board, now)
    if board.early_signals:
        signalling.send_early(board, now)
    if board.stale:
        _sweep(board)
    if board.released:
        cycles.look_soon(board, now)
    if board.scaling.maximum is not None and not board.recovering:
        scaling.follow_queue(board, board.scaling.maximum, now)
    dispatching.dispatch(board, now)
    if board.wanted or board.draining or board.interrupted:
        _see_to_engines(board, now)
    if board.outgoing:
        _deliver(board)
    if board.objects.kept or board.objects.freed:
        _tell_store(board)
    if board.forgetful:
        board.timers.set_default(FORGET, now + board.settings.forget_s)
    if board.seats_changed:
        reporting.report_seats(board, now)


def _see_to_engines(board: Board, now: float) -> None:
    """Engines that are to be started, to be dismissed, or to be watched after an interrupt."""
    if board.wanted:
        seating.start_wanted(board, now)
    if board.draining:
        scaling.dismiss_drained(board, now)
    if board.interrupted:
        cancelling.watch(board, now)


def _follow_up(board: Board, now: float) -> None:
    """Lost values that are needed, actors that have been made, and actors and placement groups that nobody holds any
    more: one may lead to another.
    """
    objects = board.objects
    if board.unheld_placements:
        grouping.drop_unheld(board, now)
    while objects.wanted or board.made or objects.dropped or board.leaving:
        remaking.make_wanted(board)
        acting.take_made(board, now)
        acting.look_at_dropped(board)
        acting.let_leave(board, now)
        grouping.drop_unheld(board, now)


def _sweep(board: Board) -> None:
    for group in board.stale:
        board.queue_of(group).sweep(group)
    board.stale.clear()


def _deliver(board: Board) -> None:
    """Hand over the results that have come in since the last time; for those who are away they stay in the outbox."""
    for client in board.outgoing.values():
        if client.attached:
            for message in client.pack(board.settings):
                board.tell_client(client, message)
    board.outgoing.clear()


def _tell_store(board: Board) -> None:
    objects = board.objects
    if objects.kept:
        board.commands.append(KeepBlocks(blocks=objects.kept))
    if objects.freed:
        board.commands.append(FreeBlocks(blocks=objects.freed))
    objects.kept, objects.freed = [], []


# ---- tables of what calls what ---------------------------------------------------------------------------

_FROM_CLIENT: Final[dict[type, Callable[[Board, Client, Any], object]]] = {
    DefineFunction: submitting.define_function,
    Submit: submitting.submit,
    SubmitPinned: submitting.submit_pinned,
    PutObjects: submitting.put_objects,
    Hold: holding.hold,
    Fetch: remaking.fetch,
    Release: holding.release,
    Consume: streams.consume,
    CreateActor: acting.create_actor,
    HoldActor: reviving.hold_actor,
    CallActor: acting.call_actor,
    FindActor: acting.find_actor,
    Meet: meeting.meet,
    CreateGroup: grouping.create_group,
    Acknowledge: attending.acknowledge,
}

_FOR_CLUSTER: Final[dict[type, Callable[[Board, Any, float], object]]] = {
    Cancel: cancelling.cancel,
    InterruptRanks: cancelling.interrupt_ranks,
    RestartSeats: seating.restart_seats,
    KillActor: acting.kill_actor,
    RemoveGroup: grouping.remove_group,
    Scale: scaling.scale,
    Autoscale: scaling.autoscale,
    ClientAttached: attending.client_attached,
    ClientGone: attending.client_gone,
    EngineAttached: seating.engine_attached,
    EngineUnreachable: seating.engine_unreachable,
    EngineExited: seating.engine_exited,
    StartFailed: seating.start_failed,
    NodeLost: seating.node_lost,
    MemoryLow: memory.memory_low,
    RecoverFrom: recovering.recover_from,
}

_ON_TIME: Final[dict[str, Callable[[Board, float], object]]] = {
    "extras": auxiliary.let_idle_go,
    "cycles": cycles.end_cycles,
    "patience": recovering.patience_over,
}

_WHEN_LATE: Final[dict[str, Callable[[Board, Engine, float], object]]] = {
    "attach": seating.attach_overdue,
    "grace": cancelling.grace_over,
    "exit": cancelling.grace_over,
    "orphan": cancelling.orphaned,
}

_TIMELESS: Final[dict[type, Callable[[Board, Any], object]]] = {
    Remember: submitting.remember,
    Blocked: lending.blocked,
    Unblocked: lending.unblocked,
    StoreLost: remaking.store_lost,
    NodeUp: seating.node_up,
}


def _hear(board: Board, client: Client, message: ClientMessage, now: float) -> None:
    kind = type(message)
    if kind in _FROM_CLIENT:
        _FROM_CLIENT[kind](board, client, message)
    elif isinstance(message, StatusRequest):
        board.tell_client(client, reporting.status(board, message.request, now))
    elif isinstance(message, StateRequest):
        board.tell_client(client, rows.state(board, message, now))
    elif isinstance(message, Sync):
        board.tell_client(client, Synced(request=message.request))
    elif isinstance(message, SignalActor):
        signalling.signal_actor(board, message, now)
        board.tell_client(client, Synced(request=message.request))
    elif isinstance(message, Goodbye):
        attending.goodbye(board, client, message, now)
    elif isinstance(message, Detach):
        board.detached = True
    elif isinstance(message, Stop):
        attending.shut_down(board, "it was stopped")
    else:
        _happen(board, message, now)


def _happen(board: Board, event: Event | ClientMessage, now: float) -> None:
    kind = type(event)
    if kind in _TIMELESS:
        _TIMELESS[kind](board, event)
    else:
        _FOR_CLUSTER[kind](board, event, now)


def _fire(board: Board, kind: str, id_: int, now: float) -> None:
    """A timer is due. Those that are not named here only wake the scheduler up."""
    if kind == "lease":
        attending.lease_over(board, board.clients[id_], now)
    elif kind == holding.DOUBT:
        holding.doubt_over(board, board.clients[id_])
    elif kind == "empty":
        attending.shut_down_if_empty(board, "no client came in time")
    elif kind in _ON_TIME:
        _ON_TIME[kind](board, now)
    elif kind == "start":
        seating.start_again(board, id_)
    elif kind in _WHEN_LATE:
        _WHEN_LATE[kind](board, board.engines[id_], now)
    elif kind == "forget":
        board.tell_to_forget()
    elif kind == "settle":
        recovering.settle(board)
