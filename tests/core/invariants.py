"""What must hold of a scheduler's board whenever it has drained. Used by the state machine and the simulation."""

from __future__ import annotations

from collections import Counter

from fibernb.core.board import Board
from fibernb.core.holding import is_stored, will_come
from fibernb.core.leases import Lease
from fibernb.core.nodes import SEAT_MILLI, Stock
from fibernb.core.receipts import Receipt
from fibernb.core.scheduler import Scheduler
from fibernb.core.seats import Engine
from fibernb.core.states import ActorState, SeatState, TaskState
from fibernb.core.tasks import ANY_RANK, Group
from fibernb.model import Result


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
    check_actors(board)
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
    calls = [task for actor in board.actors.values() for task in actor.calls.tasks()]
    queued.update(task.id for task in calls if task.state is TaskState.QUEUED)
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
    counts = [board.plain.count, board.special.count, *(actor.calls.count for actor in board.actors.values())]
    assert sum(counts) == sum(queued.values()), "queue counts are wrong"


def check_groups(board: Board) -> None:
    """Groups count their tasks, and stand in a queue exactly when something of them is queued."""
    live: Counter[Group] = Counter(task.group for task in board.tasks.values())
    for group, count in live.items():
        assert group.live == count
        loose = group.client is board.internal or group.members is not None
        assert loose or board.groups.get(group.key) is group
        if group.members is not None:
            assert len(group.members) == count
    assert all(group.live for group in board.groups.values()), "an empty group was kept"
    listed = [group for queue in (board.plain, board.special) for group in queue.groups()]
    assert len(set(listed)) == len(listed)
    assert all(group.listed and group.queued for group in listed)
    assert all(group.listed == group.queued for group in live if not group.actor or not group.client.id)
    for groups in board.children.values():
        assert groups
        assert all(group.live for group in groups)


def check_seats(board: Board) -> None:
    """Seats are what their engines make them, and no engine runs two tasks."""
    idle = {rank for rank, seat in board.seats.items() if seat.state is SeatState.IDLE}
    assert set(board.idle.in_order()) == {rank for rank in idle if rank >= 0}
    extras = [rank for pool in board.pools.values() for rank in pool.idle]
    assert sorted(extras) == sorted(rank for rank in idle if rank < 0 and not board.seats[rank].actor)
    engines = {seat.engine.id for seat in board.seats.values() if seat.engine is not None}
    assert engines == set(board.engines), "an engine without a seat, or a seat with an engine that is gone"
    assert all(rank in board.seats for rank in range(board.scaling.seats)), "a declared rank has no seat"
    for rank, seat in board.seats.items():
        engine = seat.engine
        if seat.state is SeatState.WANTED:
            assert engine is None
            assert rank < board.scaling.seats
            assert seat.node or rank >= 0
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
            assert rank >= board.scaling.seats or rank < 0 or engine.worn
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
    """What nodes count as used is what is leased from them, and never more than they have."""
    leases = [engine.lease for engine in board.engines.values() if engine.lease is not None]
    leases += [actor.lease for actor in board.actors.values() if actor.lease is not None]
    bundles = [bundle for placement in board.placements.values() for bundle in placement.bundles]
    leases += [bundle.lease for bundle in bundles if bundle.lease is not None]
    for node in board.nodes.values():
        engines = [engine for engine in board.engines.values() if engine.node == node.name]
        assert node.seats == sum(1 for e in engines if e.rank >= 0)
        assert node.extras == sum(1 for e in engines if e.rank < 0)
        assert node.slots is None or node.seats <= node.slots or node.seats > 0
        assert node.idle == sum(1 for e in engines if e.rank >= 0 and board.seats[e.rank].state is SeatState.IDLE)
        mine = [lease for lease in leases if lease.room is node]
        on_seats = sum(SEAT_MILLI for lease in leases if lease.node is node and lease.on_seat)
        lent = sum(SEAT_MILLI for e in engines if e.lends_seat) + sum(lease._lent for lease in mine)
        assert node.extra_milli == sum(lease.asked.milli_cpus for lease in mine) - on_seats - lent
        assert node.lasting_milli == sum(lease.asked.milli_cpus for lease in mine if lease.lasting)
        check_stock(node.stock, mine)
    for bundle in bundles:
        if bundle.node is not None:
            mine = [lease for lease in leases if lease.room is bundle]
            assert bundle.used_milli == sum(lease.asked.milli_cpus - lease._lent for lease in mine)
            check_stock(bundle.stock, mine)
    for engine in board.engines.values():
        assert engine.lease is None or engine.line, "an engine that has nothing to do keeps resources"
        assert engine.blocked.keys() <= {task.id for task in engine.line}


def check_stock(stock: Stock, leases: list[Lease]) -> None:
    asked = [lease.asked for lease in leases]
    shares: Counter[int] = Counter()
    for lease in leases:
        shares.update(lease.shares)
        assert sum(lease.shares.values()) == lease.asked.milli_gpus
    assert {number: used for number, used in stock.devices._used.items() if used} == shares
    assert all(used <= stock.devices.has[number] for number, used in shares.items())
    assert stock.memory_bytes == sum(each.memory_bytes for each in asked) <= stock.capacity.memory_bytes
    for name, amount in stock.custom.items():
        assert amount == sum(each.custom.get(name, 0) for each in asked) <= stock.capacity.custom.get(name, 0)


def check_actors(board: Board) -> None:
    """Actors have what their states say: a task that makes them, a seat, an engine, calls."""
    for id_, actor in board.actors.items():
        maker = board.tasks.get(id_)
        seat = board.seats.get(actor.rank) if actor.rank else None
        assert (actor.lease is None) or actor.rank
        assert seat is None or seat.actor == id_
        if actor.state is ActorState.ALIVE:
            assert maker is None
            assert seat is not None
            assert seat.engine is not None
        elif actor.dead:
            assert actor.calls.is_empty()
            assert maker is None or maker.state >= TaskState.SENT
            assert board.named.get((actor.create.options.namespace, actor.create.options.name)) is not actor
        else:
            assert maker is not None or id_ in board.made
        ready = [task for task in actor.calls.tasks() if task.state is TaskState.QUEUED]
        assert actor.calls.count == len(ready)
        assert set(actor.groups) == {group for group in _live_groups(board) if group.actor == id_}
        assert not actor.unheld or actor.detached or actor.groups or actor.rank, "an actor that nobody needs"
    assert all(not actor.dead for actor in board.named.values())
    for seat in board.seats.values():
        if seat.actor:
            assert board.actors[seat.actor].rank == seat.rank
            assert seat.engine is None or seat.engine.actor == seat.actor


def _live_groups(board: Board) -> set[Group]:
    return {task.group for task in board.tasks.values() if task.group.client.id}


def check_answers(board: Board) -> None:
    """Answers are kept exactly while they are not acknowledged."""
    waiting = Counter(
        result.id
        for client in board.clients.values()
        for results in (client.outbox, *(parcel.message.results for parcel in client.unacknowledged if parcel.answers))
        for result in results
    )
    assert not waiting or max(waiting.values()) == 1, "a task was answered twice"
    parts = {part for part, task in board.part_of.items() if task in waiting}
    assert set(waiting) <= set(board.answers) <= set(waiting) | parts
    assert set(board.streams) <= set(board.tasks), "a stream was kept that has ended"
    assert not set(board.answers) & {id_ for id_, task in board.tasks.items() if not task.group.client.silent}
    assert not set(board.orphans) & set(board.tasks)
    assert all(task in board.tasks or task in waiting for task in board.part_of.values())
    assert all(not (client.outbox or client.gifts) or not client.attached for client in board.clients.values())


def _uses(board: Board) -> Counter[int]:
    """How often tasks, actors and the namespace use each object."""
    uses: Counter[int] = Counter()
    for task in board.tasks.values():
        if task.group is not board.claimed:
            uses.update({*task.call.deps, *task.call.refs})
    for actor in board.actors.values():
        if not actor.dead:
            uses.update({*actor.create.deps, *actor.create.refs})
    for remembered in board.replay.entries:
        uses.update(remembered.message.refs)
    return uses


def check_objects(board: Board) -> None:
    """Objects live while they are held or needed, and tasks wait for exactly those that are not there."""
    objects, entries = board.objects, board.objects.entries
    uses = _uses(board)
    kept = [entry.result for entry in entries.values() if entry.result is not None]
    for orphan in board.orphans.values():
        kept += [orphan.result, *orphan.result.more]
    for result in kept:
        uses.update(result.refs)
    holders = Counter(object_id for client in board.clients.values() for object_id in client.objects)
    heirs = Counter(id_ for lineage in objects.lineages.values() for id_ in {*lineage.call.deps, *lineage.call.refs})
    assert not (set(uses) | set(holders) | set(heirs)) - set(entries), "something is needed that has no entry"
    for object_id, entry in entries.items():
        assert (entry.uses, entry.holders, entry.heirs) == (uses[object_id], holders[object_id], heirs[object_id])
        assert entry.needed or entry.heirs or objects.patient, "an object was kept that nobody needs"
        if entry.result is not None:
            assert (entry.waiting, entry.fetchers, entry.lost) == ({}, {}, "")
        if not entry.needed and not objects.patient and entry.result is not None:
            assert not is_stored(entry.result), "a value was kept for its heirs"
    check_blocks(board, kept)
    check_lineage(board)
    check_waiting(board)


def check_blocks(board: Board, kept: list[Result]) -> None:
    """Blocks are counted by the values that stand in them, and the store has been told."""
    blocks = Counter(block for result in kept for block in result.blocks)
    assert board.objects.blocks == dict(blocks)
    assert not board.objects.kept
    assert not board.objects.freed


def check_lineage(board: Board) -> None:
    """Every lineage has outputs, which know it, and no other entry has one."""
    objects = board.objects
    made = {id_: lineage for lineage in objects.lineages.values() for id_ in lineage.outputs}
    assert made == {id_: entry.lineage for id_, entry in objects.entries.items() if entry.lineage is not None}
    assert all(lineage.outputs for lineage in objects.lineages.values())
    assert objects.lineage_bytes == sum(lineage.size_bytes for lineage in objects.lineages.values())


def check_waiting(board: Board) -> None:
    """What is waited for will come."""
    entries = board.objects.entries
    for task in board.tasks.values():
        if task.group is board.claimed:
            continue
        needed = [entries[object_id] for object_id in set(task.call.deps)]
        if task.state <= TaskState.QUEUED:
            assert task.blockers == sum(1 for entry in needed if entry.result is None)
            assert all(task.id in entry.waiting for entry in needed if entry.result is None)
    if board.unsettled:
        return
    for object_id, entry in entries.items():
        if entry.fetchers or any(id_ in board.tasks for id_ in entry.waiting):
            made = entry.lineage is not None and entry.lineage.call.id in board.tasks
            assert made or will_come(board, object_id), f"{object_id:#x} is waited for and will not come"


def check_functions(board: Board) -> None:
    users = Counter(digest for client in board.clients.values() for digest in client.functions)
    users.update(entry.message.function for entry in board.replay.entries)
    users.update(actor.function.digest for actor in board.actors.values())
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
        "blocks": len(board.objects.blocks),
        "lineages": len(board.objects.lineages),
        "streams": len(board.streams),
        "gifts": sum(len(client.gifts) for client in board.clients.values()),
        "queued": board.plain.count + board.special.count + len(board.plain) + len(board.special),
        "lines": sum(len(engine.line) for engine in board.engines.values()),
        "receipts": sum(len(engine.receipts.open) for engine in board.engines.values()),
        "unacknowledged": sum(len(client.unacknowledged) for client in board.clients.values()),
        "outboxes": sum(len(client.outbox) for client in board.clients.values()),
        "stale": len(board.stale),
        "outgoing": len(board.outgoing),
        "interrupted": len(board.interrupted),
        "orphans": len(board.orphans),
        "actors": len(board.actors) + len(board.named) + len(board.calling) + len(board.leaving),
        "extras": sum(1 for rank in board.seats if rank < 0),
        "early": len(board.early_calls) + len(board.early_blocked),
        "placements": len(board.placements) + len(board.unplaced) + len(board.unheld_placements),
    }
