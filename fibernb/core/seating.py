"""How seats get their engines, and what follows when an engine ends.

An engine that ends early (before it attached, while it restored the namespace, or soon after and without having
finished anything) counts as a failure of its seat: the next one is started after a delay that doubles. One that dies
in a task is replaced at once: each death costs that task an attempt, so this cannot go on for ever.
"""

from __future__ import annotations

from fibernb.core import auxiliary, grouping, reviving
from fibernb.core.attending import end_client
from fibernb.core.board import Board
from fibernb.core.cancelling import kill
from fibernb.core.commands import KillEngine, StartEngine
from fibernb.core.endings import end_task
from fibernb.core.events import EngineAttached, EngineExited, EngineUnreachable, NodeLost, NodeUp, StartFailed
from fibernb.core.leasing import give_back
from fibernb.core.losing import lose_line
from fibernb.core.messages import RestartSeats
from fibernb.core.nodes import Node
from fibernb.core.recovering import take_inventory
from fibernb.core.seats import Engine, Seat
from fibernb.core.sending import send
from fibernb.core.states import SeatState
from fibernb.core.tasks import Group, Task
from fibernb.model import DEFAULT_OPTIONS, Call, Outcome, Rank, Result, rank_name


def node_up(board: Board, event: NodeUp) -> None:
    """A node is there, or tells that what it has is something else."""
    node = board.nodes.get(event.node)
    if node is None:
        board.nodes[event.node] = Node(event.node, event.slots, event.capacity)
    else:
        node.slots = event.slots
        node.stock.resize(event.capacity)
    board.roomier = True


def node_lost(board: Board, event: NodeLost, now: float) -> None:
    """A node has gone, with all its engines."""
    for engine in [engine for engine in board.engines.values() if engine.node == event.node]:
        engine.asked, engine.doomed = True, f"its node was lost: {event.reason}"
        _end_engine(board, engine, EngineExited(engine=engine.id, exit_code=None), now)
    node = board.nodes.pop(event.node, None)
    if node is not None:
        grouping.node_lost(board, node)
        auxiliary.node_lost(board, node.name)


# ---- starting -------------------------------------------------------------------------------------------


def start_wanted(board: Board, now: float) -> None:
    """Ask for engines for the seats that need one, as far as nodes have room."""
    for rank in sorted(board.wanted, key=lambda rank: (rank < 0, abs(rank))):
        seat = board.seats[rank]
        if rank < 0:
            node = board.nodes.get(seat.node)
        else:
            node = None if board.hold_starts else _roomiest(board)
        if node is not None:
            del board.wanted[rank]
            _start(board, seat, node, now)


def _roomiest(board: Board) -> Node | None:
    open_nodes = [node for node in board.nodes.values() if node.has_slot()]
    return min(open_nodes, key=lambda node: (node.seats, node.name), default=None)


def _start(board: Board, seat: Seat, node: Node, now: float) -> None:
    engine = Engine(board.next_engine, seat.rank, node.name)
    board.next_engine += 1
    board.engines[engine.id] = engine
    seat.engine = engine
    engine.actor = seat.actor
    node.count_engine(seat.rank, 1)
    board.move_seat(seat, SeatState.STARTING, now)
    board.timers.set(("attach", engine.id), now + board.settings.start_timeout_s)
    board.commands.append(StartEngine(engine=engine.id, rank=seat.rank, node=node.name, environment=seat.environment))


def attach_overdue(board: Board, engine: Engine, now: float) -> None:
    kill(board, engine, f"it did not attach within {board.settings.start_timeout_s:g} s", now, asked=False)


def engine_attached(board: Board, event: EngineAttached, now: float) -> None:
    engine = board.engines.get(event.engine)
    if engine is None:
        board.commands.append(KillEngine(engine=event.engine, reason="this cluster has no such engine"))
        return
    if engine.killed:  # it was on its way when its end was decided
        return
    if engine.attached:
        board.counts.refused += 1
        return
    engine.attached, engine.attached_at, engine.pid = True, now, event.pid
    board.timers.cancel(("attach", engine.id))
    seat = board.seats[engine.rank]
    if engine.id in board.recovering and event.actor is not None:
        reviving.adopt(board, engine, seat, event.actor, event.holds)
    board.move_seat(seat, SeatState.IDLE, now)
    if engine.id in board.recovering:
        take_inventory(board, engine, event, now)
    else:
        _restore_namespace(board, engine, now)
    if seat.rank >= board.scaling.seats:
        retire(board, seat, now)
    board.awake[seat.rank] = None


def _restore_namespace(board: Board, engine: Engine, now: float) -> None:
    """Repeat on a new engine what the namespace is made of, before anything else runs there."""
    engine.alone = True
    for entry in board.replay.for_rank(engine.rank):
        board.replay_ids += 1
        call = Call(board.replay_ids, entry.args_for(engine.rank))
        function = board.functions.by_digest[entry.message.function]
        group = Group(board.claimed.key, board.internal, function, DEFAULT_OPTIONS, None)
        send(board, engine, [Task(call.id, call, group, rank=engine.rank)], now)
        engine.replaying += 1
    if engine.replaying and engine.rank < 0 and not engine.actor:
        auxiliary.is_starting_still(board, board.seats[engine.rank])


# ---- ending ---------------------------------------------------------------------------------------------


def start_failed(board: Board, event: StartFailed, now: float) -> None:
    for engine_id in event.engines:
        engine = board.engines.get(engine_id)
        if engine is not None and not engine.attached:
            engine.doomed = event.reason
            _end_engine(board, engine, EngineExited(engine=engine_id, exit_code=None), now)


def engine_unreachable(board: Board, event: EngineUnreachable, now: float) -> None:
    """Its link broke. An engine that was told to end closes its link, too."""
    engine = board.engines.get(event.engine)
    if engine is not None and not engine.doomed:
        kill(board, engine, "its link broke", now, asked=False)


def engine_exited(board: Board, event: EngineExited, now: float) -> None:
    engine = board.engines.get(event.engine)
    if engine is not None:
        _end_engine(board, engine, event, now)


def _end_engine(board: Board, engine: Engine, event: EngineExited, now: float) -> None:
    seat = board.seats[engine.rank]
    board.note_end(engine, event)
    if seat.state is not SeatState.LOST:
        board.move_seat(seat, SeatState.LOST, now)
    early = _ended_early(board, engine, now)
    _strike(board, engine)
    if engine.actor:
        reviving.lose_actor(board, engine, event)
    else:
        lose_line(board, engine, event)
    for client in [client for client in board.clients.values() if client.engine == engine.id]:
        end_client(board, client, now)
    seat.engine = None
    if engine.attached and seat.rank >= 0:
        board.lost_ranks[seat.rank] = None
    if not engine.asked:
        seat.deaths += 1
        seat.failures = seat.failures + 1 if early else 0
        seat.trouble = _trouble(engine, event) if early else ""
    if _keeps_seat(board, seat):
        board.move_seat(seat, SeatState.WANTED, now)
        _refill(board, seat, now)


def _keeps_seat(board: Board, seat: Seat) -> bool:
    """Whether a seat that has lost its engine gets another one; else it is removed."""
    if seat.actor:
        return reviving.keeps_seat(board, seat)
    if seat.rank < 0:
        kept = auxiliary.is_wanted(board, seat)
        if not kept:
            auxiliary.remove_seat(board, seat)
        return kept
    if seat.rank >= board.scaling.seats:
        remove_seat(board, seat)
        return False
    return True


def _ended_early(board: Board, engine: Engine, now: float) -> bool:
    if not engine.attached or engine.replaying:
        return True
    return not engine.line and not engine.productive and now - engine.attached_at < board.settings.settle_s


def _strike(board: Board, engine: Engine) -> None:
    """Take an engine out of every table."""
    del board.engines[engine.id]
    for table in (board.hungry, board.deep, board.forgetful, board.interrupted, board.recovering):
        table.pop(engine.id, None)
    for kind in ("attach", "exit", "grace", "orphan"):
        board.timers.cancel((kind, engine.id))
    board.draining.pop(engine.rank, None)
    give_back(board, engine)
    node = board.nodes.get(engine.node)
    if node is not None:
        node.count_engine(engine.rank, -1)


def _trouble(engine: Engine, event: EngineExited) -> str:
    manner = engine.doomed or f"exit code {event.exit_code}"
    text = f"the engine of {rank_name(engine.rank)} on {engine.node} ended early: {manner}"
    lines = event.last_output.strip().splitlines()
    return "; ".join(part for part in (text, event.evidence, lines[-1] if lines else "") if part)


def _refill(board: Board, seat: Seat, now: float) -> None:
    """Ask for an engine: at once, or after a delay that doubles with each failure."""
    if not seat.failures:
        board.wanted[seat.rank] = None
        return
    settings = board.settings
    delay = min(settings.max_restart_delay_s, settings.restart_delay_s * 2.0 ** min(seat.failures - 1, 60))
    board.timers.set(("start", seat.rank), now + delay)


def start_again(board: Board, rank: Rank) -> None:
    """The delay of a seat is over. One beside the declared ones may not be needed any more."""
    seat = board.seats[rank]
    if rank >= 0 or seat.actor or auxiliary.is_wanted(board, seat):
        board.wanted[rank] = None
    else:
        auxiliary.remove_seat(board, seat)


def remove_seat(board: Board, seat: Seat) -> None:
    """A seat that is declared no more, and has no engine. Nothing can run what was pinned there."""
    del board.seats[seat.rank]
    board.wanted.pop(seat.rank, None)
    board.timers.cancel(("start", seat.rank))
    board.seats_changed = True
    error = board.errors.no_such_rank(seat.rank, board.scaling.seats)
    for task in list(seat.pinned):
        if task.id in board.tasks:  # each may take others along
            end_task(board, task, Result(task.id, error, Outcome.ERROR))


def retire(board: Board, seat: Seat, now: float) -> None:
    """A seat is declared no more: it goes at once if it has no engine, else when it has nothing left to do."""
    if seat.state is SeatState.WANTED:
        remove_seat(board, seat)
    elif seat.engine is not None and seat.state is SeatState.STARTING:
        kill(board, seat.engine, "its seat is not needed any more", now)
    elif seat.state in (SeatState.IDLE, SeatState.BUSY):
        board.move_seat(seat, SeatState.DRAINING, now)
        board.draining[seat.rank] = None


def restart_seats(board: Board, message: RestartSeats, now: float) -> None:
    """Fresh engines for these ranks."""
    for rank in message.ranks:
        seat = board.seats.get(rank)
        if seat is None:
            continue
        seat.failures = 0
        seat.trouble = ""
        if seat.engine is not None:
            kill(board, seat.engine, "its seat was restarted", now)
        else:
            board.timers.cancel(("start", rank))
            board.wanted[rank] = None
