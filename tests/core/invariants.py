"""What must hold of a scheduler's board whenever it has drained. Used by the state machine and the simulation."""

from __future__ import annotations

from collections import Counter

from fibernb.core.board import Board
from fibernb.core.nodes import SEAT_MILLI
from fibernb.core.receipts import Receipt
from fibernb.core.scheduler import Scheduler
from fibernb.core.seats import Engine
from fibernb.core.states import SeatState, TaskState
from fibernb.core.tasks import ANY_RANK, Group


def board_of(scheduler: Scheduler) -> Board:
    return scheduler._board


def check(scheduler: Scheduler) -> None:
    """Raise AssertionError where the board contradicts itself."""
    board = board_of(scheduler)
    if board.stopped:
        return
    check_places(board)
    check_groups(board)
    check_seats(board)
    check_nodes(board)
    check_answers(board)
    check_objects(board)
    check_functions(board)
    check_receipts(board)


def check_places(board: Board) -> None:
    """Every task stands in exactly one place, the one that its state names."""
    queued = Counter(
        task.id
        for queue in (board.plain, board.special)
        for group in queue.groups()
        for task in (*group.ready, *group.suspects)
    )
    pinned = Counter(task.id for seat in board.seats.values() for task in seat.pinned)
    sent = Counter(
        task.id for engine in board.engines.values() for task in engine.line if board.tasks.get(task.id) is task
    )
    places = queued + pinned + sent
    assert not places or max(places.values()) == 1, "a task stands in two places"
    for task in board.tasks.values():
        if task.state in (TaskState.SENT, TaskState.RUNNING):
            assert sent[task.id] == 1, f"{task.id:#x} is {task.state.name} and on no engine"
        elif task.rank != ANY_RANK:
            assert pinned[task.id] == 1, f"{task.id:#x} is pinned and waits nowhere"
        elif task.state is TaskState.QUEUED:
            assert queued[task.id] == 1, f"{task.id:#x} is queued in no queue"
        else:
            assert task.state is TaskState.WAITING
            assert places[task.id] == 0
            assert task.blockers > 0, f"{task.id:#x} waits for nothing"
    assert sum(places.values()) + sum(
        1 for task in board.tasks.values() if task.state is TaskState.WAITING and task.rank == ANY_RANK
    ) == len(board.tasks)
    assert board.plain.count + board.special.count == sum(queued.values()), "queue counts are wrong"


def check_groups(board: Board) -> None:
    """Groups count their tasks, and stand in a queue exactly when something of them is queued."""
    live: Counter[Group] = Counter(task.group for task in board.tasks.values())
    for group, count in live.items():
        assert group.live == count
        assert group is board.claimed or board.groups.get(group.key) is group or group.members is not None
        if group.members is not None:
            assert len(group.members) == count
    assert all(group.live for group in board.groups.values()), "an empty group was kept"
    listed = [group for queue in (board.plain, board.special) for group in queue.groups()]
    assert len(set(listed)) == len(listed)
    assert all(group.listed and group.queued for group in listed)
    assert all(group.listed == group.queued for group in live)
    for groups in board.children.values():
        assert groups
        assert all(group.live for group in groups)


def check_seats(board: Board) -> None:
    """Seats are what their engines make them, and no engine runs two tasks."""
    idle = {rank for rank, seat in board.seats.items() if seat.state is SeatState.IDLE}
    assert set(board.idle.in_order()) == idle
    engines = {seat.engine.id for seat in board.seats.values() if seat.engine is not None}
    assert engines == set(board.engines), "an engine without a seat, or a seat with an engine that is gone"
    assert all(rank in board.seats for rank in range(board.scaling.seats)), "a declared rank has no seat"
    for rank, seat in board.seats.items():
        engine = seat.engine
        if seat.state is SeatState.WANTED:
            assert engine is None
            assert rank < board.scaling.seats
            assert rank in board.wanted or ("start", rank) in board.timers
            continue
        assert engine is not None
        assert engine.rank == rank
        check_line(board, engine)
        if seat.state is SeatState.STARTING:
            assert not engine.attached
        elif seat.state is SeatState.IDLE:
            assert engine.usable
            assert not engine.line
        elif seat.state is SeatState.BUSY:
            assert engine.usable
            assert engine.line
        elif seat.state is SeatState.DRAINING:
            assert rank in board.draining
            assert rank >= board.scaling.seats
        else:
            assert engine.doomed


def check_line(board: Board, engine: Engine) -> None:
    positions = [task.position for task in engine.line]
    assert positions == sorted(set(positions))
    assert not positions or positions[-1] < engine.next_position
    running = [task for task in engine.line if task.state is TaskState.RUNNING]
    assert len(running) <= 1, "an engine runs two tasks"
    assert not running or running[0] is engine.line[0]


def check_nodes(board: Board) -> None:
    """What nodes count as used is what runs there, and never more than they have."""
    for node in board.nodes.values():
        engines = [engine for engine in board.engines.values() if engine.node == node.name]
        assert node.seats == len(engines)
        assert node.slots is None or node.seats <= node.slots or node.seats > 0
        assert node.idle == sum(1 for e in engines if board.seats[e.rank].state is SeatState.IDLE)
        special = [task.group.options.resources for engine in engines for task in engine.line if not task.group.plain]
        assert node.extra_milli == sum(max(0, r.milli_cpus - SEAT_MILLI) for r in special)
        assert 0 <= node.milli_gpus == sum(r.milli_gpus for r in special)
        assert node.milli_gpus <= node.capacity.milli_gpus
        assert 0 <= node.memory_bytes == sum(r.memory_bytes for r in special)
        assert node.memory_bytes <= node.capacity.memory_bytes
        for name, amount in node.custom.items():
            assert 0 <= amount == sum(r.custom.get(name, 0) for r in special)
            assert amount <= node.capacity.custom.get(name, 0)


def check_answers(board: Board) -> None:
    """Answers are kept exactly while they are not acknowledged."""
    waiting = Counter(
        result.id
        for client in board.clients.values()
        for results in (client.outbox, *(parcel.message.results for parcel in client.unacknowledged))
        for result in results
    )
    assert not waiting or max(waiting.values()) == 1, "a task was answered twice"
    parts = {part for part, task in board.part_of.items() if task in waiting}
    assert set(waiting) <= set(board.answers) <= set(waiting) | parts
    assert not set(board.answers) & set(board.tasks)
    assert not set(board.orphans) & set(board.tasks)
    assert all(task in board.tasks or task in waiting for task in board.part_of.values())
    assert all(not client.outbox or not client.attached for client in board.clients.values())


def check_objects(board: Board) -> None:
    """Objects live while they are held or needed, and tasks wait for exactly those that are not there."""
    uses: Counter[int] = Counter()
    for task in board.tasks.values():
        if task.group is not board.claimed:
            uses.update(set(task.call.deps))
    held = {object_id for client in board.clients.values() for object_id in client.objects}
    for object_id, entry in board.objects.entries.items():
        assert entry.uses == uses[object_id]
        assert entry.held == (object_id in held)
        assert entry.held or entry.uses, "an object was kept that nobody needs"
        assert entry.result is None or not entry.waiting
    for task in board.tasks.values():
        entries = [board.objects.entries[object_id] for object_id in set(task.call.deps)]
        assert task.blockers == sum(1 for entry in entries if entry.result is None)
        assert all(task in entry.waiting for entry in entries if entry.result is None)


def check_functions(board: Board) -> None:
    users = Counter(digest for client in board.clients.values() for digest in client.functions)
    users.update(entry.message.function for entry in board.replay.entries)
    assert {digest: function.users for digest, function in board.functions.by_digest.items()} == dict(users)


def check_receipts(board: Board) -> None:
    """Receipts are open exactly while someone holds on to a result of theirs."""
    holders: Counter[Receipt] = Counter()
    for client in board.clients.values():
        holders.update(client.receipts)
        for parcel in client.unacknowledged:
            holders.update(parcel.receipts)
    holders.update(orphan.receipt for orphan in board.orphans.values())
    for engine in board.engines.values():
        receipts = engine.receipts
        assert all(receipt.holders == holders[receipt] for receipt in receipts.open)
        assert not receipts.open or receipts.open[0].holders
        assert receipts.told <= receipts.forget <= receipts.last
        assert receipts.told == receipts.forget or engine.id in board.forgetful


def sizes(scheduler: Scheduler) -> dict[str, int]:
    """How many records there are of what should not outlive the work."""
    board = board_of(scheduler)
    return {
        "tasks": len(board.tasks),
        "groups": len(board.groups),
        "children": len(board.children),
        "answers": len(board.answers),
        "parts": len(board.part_of),
        "objects": len(board.objects.entries),
        "queued": board.plain.count + board.special.count + len(board.plain) + len(board.special),
        "lines": sum(len(engine.line) for engine in board.engines.values()),
        "receipts": sum(len(engine.receipts.open) for engine in board.engines.values()),
        "unacknowledged": sum(len(client.unacknowledged) for client in board.clients.values()),
        "outboxes": sum(len(client.outbox) for client in board.clients.values()),
        "stale": len(board.stale),
        "outgoing": len(board.outgoing),
        "interrupted": len(board.interrupted),
        "orphans": len(board.orphans),
    }
