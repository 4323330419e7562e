"""What there is and what was, as rows for those who look: see `StateRequest`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Final, TypeAlias

import msgspec

from fibernb.core.actors import Actor
from fibernb.core.board import Board
from fibernb.core.explaining import why
from fibernb.core.history import Ending, PastActor, Span
from fibernb.core.messages import State, StateRequest
from fibernb.core.objects import Entry
from fibernb.core.placements import Placement
from fibernb.core.reporting import node_statuses, seat_status
from fibernb.core.states import ActorState, TaskState
from fibernb.core.tasks import Task
from fibernb.model import ClientId, ObjectId, Rank, Resources, TaskId, rank_name
from fibernb.serialize.frames import value_bytes

Row: TypeAlias = dict[str, object]

_NOWHERE: Final[Row] = {"rank": None, "engine": None, "pid": None, "node": "", "queued": 0, "running": 0}


def state(board: Board, request: StateRequest, now: float) -> State:
    """The rows of one kind that are as asked for; none of a kind that there is not."""
    kind = _KINDS.get(request.kind)
    rows: Iterable[Row] = () if kind is None else kind(board, now)
    if request.where:
        rows = (row for row in rows if _fits(row, request.where))
    rest = iter(rows)
    found = list(islice(rest, max(0, request.limit)))
    total = len(found) + sum(1 for _ in rest)
    return State(request=request.request, rows=msgspec.json.encode(found), total=total)


def _fits(row: Row, where: dict[str, str]) -> bool:
    return all(str(row.get(key, "")) == value for key, value in where.items())


def name_of(id_: int) -> str:
    """How people see an id; empty for none."""
    return f"{id_:#x}" if id_ else ""


# ---- tasks -----------------------------------------------------------------------------------------------


def _tasks(board: Board) -> Iterator[Row]:
    """Those that have not ended, then those that have, the last ones first."""
    return chain(_live_tasks(board), _ended_tasks(board))


def _live_tasks(board: Board) -> Iterator[Row]:
    for task in reversed(board.tasks.values()):
        group = task.group
        sent = task.state in (TaskState.SENT, TaskState.RUNNING)
        engine = board.engines.get(task.engine) if sent else None
        yield {
            "task_id": name_of(task.id),
            "name": group.title,
            "state": task.state.name,
            "attempt_number": task.attempts,
            "client": client_name(board, group.client.id),
            "parent_task_id": name_of(group.parent or 0),
            "actor_id": name_of(group.actor),
            "rank": None if engine is None else engine.rank,
            "engine": None if engine is None else engine.id,
            "node": "" if engine is None else engine.node,
            "error": "",
            "waits_for": _waits_for(board, task),
            "why": why(board, task),
        }


def _waits_for(board: Board, task: Task) -> list[str]:
    if task.state is not TaskState.WAITING:
        return []
    entries = board.objects.entries
    return [name_of(id_) for id_ in task.call.deps if id_ in entries and entries[id_].result is None]


def _ended_tasks(board: Board) -> Iterator[Row]:
    for what in board.history.ended():
        engine = board.engines.get(what.engine)
        shared = {
            "actor_id": name_of(what.actor),
            "rank": what.rank,
            "engine": what.engine or None,
            "node": "" if engine is None else engine.node,
        }
        if isinstance(what, Ending):
            yield {"task_id": name_of(what.id), "name": what.name, "state": what.state, **shared, "error": what.error}
            continue
        failed = set(what.failed)
        for id_ in reversed(what.ids):
            state, error = board.history.ending_of(id_) if id_ in failed else ("FINISHED", "")
            yield {
                "task_id": name_of(id_),
                "name": what.function,
                "state": state,
                **shared,
                "error": error,
                "began_s": what.began_s,
                "ended_s": what.ended_s,
            }


def _spans(board: Board) -> Iterator[Row]:
    """Calls that ran in a row on one engine, the last ones first. Times are on the host's monotonic clock."""
    return map(_span, board.history.newest_first())


def _span(span: Span) -> Row:
    return {
        "rank": span.rank,
        "engine": span.engine,
        "name": span.function,
        "count": len(span.ids),
        "began_s": span.began_s,
        "ended_s": span.ended_s,
        "first_task_id": name_of(span.ids[0]),
        "last_task_id": name_of(span.ids[-1]),
        "failed": len(span.failed),
        "waited_s": span.waited_s,
    }


def _waits(board: Board, now: float) -> Iterator[Row]:
    """Calls that wait for an engine now, by group; tasks that wait for others; then waits for others that are over, the
    last ones first. Times are on the hub's monotonic clock.
    """
    for queue in (board.plain, board.special):
        for group in queue.groups():
            first, count = (group.suspects or group.ready)[0], len(group.suspects) + len(group.ready)
            yield _wait("queued", None, first.id, group.title, count, first.since or now, now) | {"open": True}
    for engine in board.engines.values():
        for task_id, pause in engine.blocked.items():
            yield _wait("blocked", engine.rank, task_id, pause.name, 1, pause.since, now) | {"open": True}
    for wait in board.history.waits():
        yield _wait("blocked", wait.rank, wait.id, wait.name, 1, wait.began_s, wait.ended_s)


def _wait(kind: str, rank: Rank | None, first: TaskId, name: str, count: int, began_s: float, ended_s: float) -> Row:
    return {
        "kind": kind,
        "rank": rank,
        "task_id": name_of(first),
        "name": name,
        "count": count,
        "began_s": began_s,
        "ended_s": ended_s,
        "open": False,
    }


# ---- objects ---------------------------------------------------------------------------------------------


def _objects(board: Board) -> Iterator[Row]:
    holders: dict[ObjectId, list[str]] = {}
    for client in board.clients.values():
        name = client_name(board, client.id)
        for object_id in client.objects:
            holders.setdefault(object_id, []).append(name)
    for object_id, entry in reversed(board.objects.entries.items()):
        row = _object(object_id, entry, holders.get(object_id, []))
        yield row | {"made_by": _maker(board, object_id) or entry.maker}


def _maker(board: Board, object_id: ObjectId) -> str:
    """What an object stands for that is no value of a task."""
    actor = board.actors.get(object_id)
    if actor is not None:
        return f"actor {actor.title}"
    return "placement group" if object_id in board.placements else ""


def _object(object_id: ObjectId, entry: Entry, holders: list[str]) -> Row:
    result = entry.result
    return {
        "object_id": name_of(object_id),
        "state": _object_state(entry),
        "holders": holders,
        "uses": entry.uses,  # by tasks that have not ended, and by values that contain it
        "size_bytes": 0 if result is None else value_bytes(result.value),
        "inline_bytes": 0 if result is None else len(result.value),
        "blocks": [] if result is None else [name_of(block) for block in result.blocks],
        "contains": 0 if result is None else len(result.refs),
        "waiting_tasks": len(entry.waiting),
        "lost": entry.lost,
    }


def _object_state(entry: Entry) -> str:
    if entry.result is None:
        return "LOST" if entry.lost else "PENDING"
    return "ERROR" if entry.result.outcome else "READY"


def client_name(board: Board, client_id: ClientId) -> str:
    """How people see a client."""
    client = board.clients.get(client_id)
    engine = None if client is None or client.engine is None else board.engines.get(client.engine)
    return f"client {client_id:x}" if engine is None else rank_name(engine.rank)


# ---- who runs what ---------------------------------------------------------------------------------------


def _engines(board: Board, now: float) -> Iterator[Row]:
    """Seats with their engines; those of ranks below 0 are beside the declared ones."""
    for rank, seat in sorted(board.seats.items()):
        status = seat_status(seat, now)
        yield {
            "rank": rank,
            "engine": status.engine,
            "state": status.state,
            "pid": status.pid,
            "node": "" if seat.engine is None else seat.engine.node,
            "task_id": name_of(status.task or 0),
            "function": status.function,
            "queued": status.queued,
            "deaths": status.deaths,
            "busy_s": status.busy_s,
            "actor_id": name_of(seat.actor),
            "environment": seat.environment,
        }


def _actors(board: Board) -> Iterator[Row]:
    return (_actor(board, actor) for actor in reversed(board.actors.values()))


def _actor(board: Board, actor: Actor) -> Row:
    options = actor.create.options
    seat = board.seats.get(actor.rank) if actor.rank < 0 else None
    engine = None if seat is None else seat.engine
    return {
        "actor_id": name_of(actor.id),
        "class_name": actor.class_name,
        "name": options.name,
        "namespace": options.namespace,
        "state": actor.state.name,
        "detached": actor.detached,
        "restarts": actor.restarts,
        "max_restarts": options.max_restarts,
        "rank": None if engine is None else engine.rank,
        "engine": None if engine is None else engine.id,
        "pid": None if engine is None else engine.pid,
        "node": "" if engine is None else engine.node,
        "queued": actor.calls.count,
        "running": 0 if engine is None else len(engine.line),
        "ended": actor.ended,
    }


def _all_actors(board: Board) -> Iterator[Row]:
    """Those that there are, then those that nobody can ask for any more, the last ones first."""
    return chain(_actors(board), map(_past_actor, reversed(board.history.actors)))


def _past_actor(past: PastActor) -> Row:
    return {
        "actor_id": name_of(past.id),
        "class_name": past.class_name,
        "name": past.name,
        "namespace": past.namespace,
        "state": ActorState.DEAD.name,
        "detached": past.detached,
        "restarts": past.restarts,
        "max_restarts": past.max_restarts,
        **_NOWHERE,
        "ended": past.ended,
    }


def _groups(board: Board) -> Iterator[Row]:
    return map(_group, reversed(board.placements.values()))


def _group(placement: Placement) -> Row:
    create = placement.create
    return {
        "placement_group_id": name_of(placement.id),
        "name": create.name,
        "strategy": create.strategy,
        "state": placement.state,
        "bundles": [
            {"node": "" if bundle.node is None else bundle.node.name, **_amounts(bundle.asked)}
            for bundle in placement.bundles
        ],
        "ended": placement.ended,
    }


def _nodes(board: Board) -> Iterator[Row]:
    for status in node_statuses(board):
        yield {
            "node": status.name,
            "alive": status.alive,
            "total": _amounts(status.total),
            "free": _amounts(status.free),
        }


def _amounts(resources: Resources) -> Row:
    """Resources as people count them (memory in bytes), without those that there are none of."""
    milli = {"CPU": resources.milli_cpus, "GPU": resources.milli_gpus, **resources.custom}
    amounts: Row = {name: amount / 1000 for name, amount in milli.items() if amount}
    return {**amounts, "memory": resources.memory_bytes} if resources.memory_bytes else amounts


_KINDS: Final[dict[str, Callable[[Board, float], Iterable[Row]]]] = {
    "tasks": lambda board, _: _tasks(board),
    "spans": lambda board, _: _spans(board),
    "waits": _waits,
    "objects": lambda board, _: _objects(board),
    "engines": _engines,
    "actors": lambda board, _: _actors(board),
    "all actors": lambda board, _: _all_actors(board),
    "groups": lambda board, _: _groups(board),
    "nodes": lambda board, _: _nodes(board),
}
