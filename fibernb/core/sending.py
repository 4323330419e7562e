"""How work goes out to engines: what runs next where, how much at once, and what is taken back.

On every drain, in this order: pinned tasks of seats whose line is empty; calls of actors; tasks that need more than a
seat (see `special`); batches for idle engines, lowest rank first, and for engines beside the seats as far as seats are
lent; then further batches for engines that are busy with short calls and have room for one. What is left over is only
taken back: when an engine is idle and nothing is queued, the longest line gives up the half that has not begun.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from fibernb.core import auxiliary, leasing
from fibernb.core.board import Board
from fibernb.core.messages import Recall, Run
from fibernb.core.nodes import SEAT_MILLI
from fibernb.core.seats import Engine
from fibernb.core.states import SeatState, TaskState
from fibernb.core.tasks import Group, Task, move_task
from fibernb.model import ONE_CPU, Call, ObjectId

_SENT: Final = TaskState.SENT
_RUNNING: Final = TaskState.RUNNING
_IDLE: Final = SeatState.IDLE
_BUSY: Final = SeatState.BUSY
TAKE_BACK: Final = ("take back", 0)


def send(board: Board, engine: Engine, tasks: list[Task], now: float) -> None:
    """Send tasks of one group to an engine, as one message."""
    group = tasks[0].group
    first = position = engine.next_position
    engine_id = engine.id
    for task in tasks:
        move_task(task, _SENT)
        task.engine = engine_id
        task.position = position
        position += 1
    if not engine.line:
        begin_line(board, engine, tasks[0], now)
    engine.line.extend(tasks)
    engine.next_position = position
    if len(engine.line) > 1 and not engine.actor:
        board.deep[engine_id] = engine
    if group.options.max_calls:
        _wear(engine, group, len(tasks))
    calls = [task.call for task in tasks]
    board.tell_engine(engine, _message(board, engine, group, calls, first))


def send_begun(board: Board, engine: Engine, task: Task, now: float) -> None:
    """Enter a call into the line of the engine that its client had sent it to. The engine knows it by its id."""
    position = engine.next_position
    send(board, engine, [task], now)
    if not engine.actor:
        engine.adopted_from = min(engine.adopted_from, position)
        engine.alone = True


def _wear(engine: Engine, group: Group, count: int) -> None:
    """Count calls of a function that an engine may run only so often."""
    digest = group.function.digest
    engine.used[digest] = engine.used.get(digest, 0) + count
    if engine.used[digest] >= group.options.max_calls:
        engine.worn = engine.alone = True


def _left(engine: Engine, group: Group, count: int) -> int:
    """How many of ``count`` calls an engine may run before it has to be replaced."""
    limit = group.options.max_calls
    return count if not limit else min(count, limit - engine.used.get(group.function.digest, 0))


def begin_line(board: Board, engine: Engine, task: Task, now: float) -> None:
    """An engine that had nothing to do begins with this task."""
    engine.since = now
    engine.lent_to = 0
    move_task(task, _RUNNING)
    seat = board.seats[engine.rank]
    if seat.state is _IDLE:
        board.move_seat(seat, _BUSY, now)


def _message(board: Board, engine: Engine, group: Group, calls: list[Call], position: int) -> Run:
    function, receipts = group.function, engine.receipts
    code: bytes | None = None
    if function.digest not in engine.functions:
        engine.functions.add(function.digest)
        code = function.code
    if receipts.told != receipts.forget:
        receipts.told = receipts.forget
        board.forgetful.pop(engine.id, None)
    return Run(
        function=function.digest,
        calls=calls,
        position=position,
        code=code,
        options=group.options,
        inputs=board.objects.inputs(calls) if group.with_inputs else [],
        forget=receipts.forget,
        gpus=_gpus(board, engine),
        actor=board.actors[group.actor].record() if group.actor and not group.client.id else None,
    )


def _gpus(board: Board, engine: Engine) -> tuple[int, ...]:
    """Numbers of the devices that the line may use."""
    lease = board.actors[engine.actor].lease if engine.actor else engine.lease
    return () if lease is None else lease.gpus


# ---- pinned tasks ---------------------------------------------------------------------------------------


def send_pinned(board: Board, now: float) -> None:
    awake, board.awake = board.awake, {}
    for rank in awake:
        seat = board.seats.get(rank)
        if seat is None or seat.engine is None or not seat.engine.usable or not seat.pinned_ready():
            continue
        if seat.engine.line:
            recall(board, seat.engine, seat.engine.not_begun())
        else:
            seat.engine.alone = True
            send(board, seat.engine, [seat.pinned.popleft()], now)


# ---- ordinary tasks -------------------------------------------------------------------------------------


def fill_idle(board: Board, now: float) -> None:
    queue = board.plain
    while (group := queue.current()) is not None:
        engine = _next_idle(board)
        if engine is None:
            return
        _fill(board, engine, group, len(board.idle), now)


def _fill(board: Board, engine: Engine, group: Group, engines: int, now: float) -> None:
    """Send a batch of the current group to an engine that is one of several which have nothing to do."""
    suspect = bool(group.suspects)
    tasks = board.plain.take(group, portion(board, engine, group, board.plain.count, engines))
    send(board, engine, tasks, now)
    engine.alone = suspect or engine.worn or not _may_batch(board, group)
    _note_load(board, engine, group, len(tasks))


def _next_idle(board: Board) -> Engine | None:
    """The lowest idle seat that nothing else keeps empty."""
    rank = board.idle.lowest()
    if rank is None:
        return None
    engine = board.engine_of(rank)
    if board.nodes[engine.node].free_milli() >= SEAT_MILLI:
        return engine
    engines = map(board.engine_of, board.idle.in_order())
    return next((engine for engine in engines if board.nodes[engine.node].free_milli() >= SEAT_MILLI), None)


def fill_lent(board: Board, now: float) -> None:
    """Let ordinary tasks run beside the seats, in the place of those that lend their cpus."""
    for node in board.nodes.values():
        while node.extra_milli < 0 and (free := node.free_milli() // SEAT_MILLI) > 0:
            if not board.plain.count:
                return
            pool = auxiliary.pool_of(board, node.name, "")
            rank = auxiliary.idle_rank(pool)
            if rank is None:
                pool.asked = 0
                auxiliary.ask(board, pool, min(free, board.plain.count), now)
                break
            group = board.plain.deepest()
            assert group is not None
            engine = board.engine_of(rank)
            leasing.take(board, engine, node, ONE_CPU)
            _fill(board, engine, group, free, now)


def _may_batch(board: Board, group: Group) -> bool:
    return not group.alone and not group.suspects and group.function.may_queue_behind(board.settings)


def portion(board: Board, engine: Engine, group: Group, queued: int, engines: int) -> int:
    """How many calls to send at once: a batch, but no more of those that are queued than leaves a share for each of
    ``engines``.
    """
    share = -(-queued // max(1, engines))
    if share <= 1 or not _may_batch(board, group):
        return 1
    settings = board.settings
    batch = _left(engine, group, group.function.batch_calls(settings))
    count = max(1, min(batch, share, settings.max_batch_bytes // group.call_bytes))
    return _fitting(board, group, count) if count > 1 and group.with_inputs else count


def _fitting(board: Board, group: Group, count: int) -> int:
    """How many of the next ``count`` calls one message can hold with their inputs, each of which it carries once."""
    settings = board.settings
    seen: set[ObjectId] = set()
    size = limit = 0
    for number, task in enumerate(islice(group.ready, count)):
        new = set(task.call.deps) - seen
        seen |= new
        size += len(task.call.args) + board.objects.size_bytes(new)
        if not number:
            limit = min(size + settings.max_batch_bytes, settings.max_call_bytes)
        elif size > limit:
            return number
    return count


def _note_load(board: Board, engine: Engine, group: Group, count: int) -> None:
    engine.line_s += count * (group.function.run_s or 0.0)
    if not engine.alone:
        board.hungry[engine.id] = engine


def fill_busy(board: Board, now: float) -> None:
    """Let a next batch wait on engines that are busy with short calls."""
    for engine in list(board.hungry.values()):
        group = board.plain.find(lambda group: _may_batch(board, group))
        if group is None:
            return
        count = _room(board, engine, group, now)
        del board.hungry[engine.id]
        if count:
            tasks = board.plain.take(group, count)
            send(board, engine, tasks, now)
            _note_load(board, engine, group, len(tasks))


def _room(board: Board, engine: Engine, group: Group, now: float) -> int:
    """How many calls of the group may wait behind what the engine has."""
    settings, run_s = board.settings, group.function.run_s or 0.0
    seat = board.seats[engine.rank]
    if engine.alone or engine.recall_until or seat.pinned or seat.state is not _BUSY:
        return 0
    if engine.lease is not None and board.nodes[engine.node].free_milli() < 0:
        return 0
    if now >= engine.since + settings.no_prefetch_s:
        return 0
    if len(engine.line) > group.function.batch_calls(settings) or engine.line_s > max(settings.batch_s, run_s):
        return 0
    return portion(board, engine, group, board.plain.count, len(board.hungry))


# ---- taking back ----------------------------------------------------------------------------------------


def recall(board: Board, engine: Engine, count: int) -> None:
    """Ask for so many calls of those that have not begun, the last ones, unless an earlier question is not answered or
    they come from a hub before this one.
    """
    if engine.recall_until or engine.replaying or not count:
        return
    begun = sum(1 for task in engine.line if task.position >= engine.adopted_from)
    until = engine.next_position if not begun else int(engine.adopted_from)
    position = max(engine.line[-count - begun].position, engine.inherited)
    if position < until:
        engine.recall_from, engine.recall_until = position, until
        board.tell_engine(engine, Recall(position=position, until=until))


def take_back(board: Board, now: float) -> None:
    """Seats are idle and nothing is queued: the longest lines give up what they have not begun."""
    patience = board.settings.take_back_s
    victims: list[tuple[float, int, int]] = []
    for engine in list(board.deep.values()):
        count = engine.not_begun() if engine.line else 0
        if not count:
            del board.deep[engine.id]
        elif engine.recall_until or not engine.usable:
            continue
        elif now >= (due := max(engine.since, engine.answered_at) + patience):
            victims.append((-engine.line_s, engine.id, count))
        elif engine.line_s >= patience:
            victims.append((-engine.line_s, engine.id, -(-count // 2)))
        else:
            board.timers.set_default(TAKE_BACK, due)
    for _, engine_id, count in sorted(victims)[: len(board.idle)]:
        recall(board, board.engines[engine_id], count)
