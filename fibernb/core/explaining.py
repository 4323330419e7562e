"""Why things wait: what people read when they ask what is pending, one reason a line."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fibernb.core.board import Board
from fibernb.core.nodes import describe, held_seats, listed
from fibernb.core.seats import Seat
from fibernb.core.special import Options
from fibernb.core.states import ActorState, SeatState, TaskState
from fibernb.core.tasks import ANY_RANK, Group, Task
from fibernb.model import rank_name

SHOWN: Final = 3  # of a kind


def pending(board: Board, tasks: Counter[TaskState]) -> list[str]:
    """Why tasks, actors, placement groups and seats wait."""
    reasons = [*_tasks(board, tasks), *_actors(board), *_placements(board), *_seats(board)]
    if board.recovering:
        reasons.append(f"the hub was restarted: {len(board.recovering)} engines have not told yet what they have")
    return reasons


def why(board: Board, task: Task) -> str:
    """What one task waits for; empty when it does not wait."""
    if task.state is TaskState.WAITING:
        return "its inputs"
    if task.state is not TaskState.QUEUED:
        return ""
    group = task.group
    actor = board.actors.get(group.actor)
    if actor is not None:
        return f"the actor {actor.title}, which is {actor.state.name}"
    if task.rank != ANY_RANK:
        return f"{rank_name(task.rank)}, which was chosen"
    if not board.scaling.seats:
        return "seats, and none are declared: scale up"
    return "a seat to fall idle" if group.plain else _wanted(group.options)


def _tasks(board: Board, tasks: Counter[TaskState]) -> list[str]:
    reasons: list[str] = []
    if tasks[TaskState.WAITING]:
        reasons.append(f"{_wait(tasks[TaskState.WAITING], 'task')} for inputs")
    queued = board.plain.count + board.special.count
    if queued and not board.scaling.seats:
        return [*reasons, f"{_wait(queued, 'task')} for seats, and none are declared: scale up"]
    if board.plain.count:
        reasons.append(f"{_wait(board.plain.count, 'task')} for a seat to fall idle{_kept_empty(board)}")
    reasons += [_special(board, group) for group in board.special.groups()]
    pinned = sum(len(seat.pinned) for seat in board.seats.values())
    if pinned:
        reasons.append(f"{_wait(pinned, 'task')} for the ranks that were chosen")
    return reasons


def _wait(count: int, what: str) -> str:
    return f"{count} {what} waits" if count == 1 else f"{count} {what}s wait"


def _kept_empty(board: Board) -> str:
    held = held_seats(board.nodes.values())
    return f" ({held} are kept empty for actors, placement groups and tasks of several cpus)" if held else ""


def _special(board: Board, group: Group) -> str:
    actor = board.actors.get(group.actor)
    if actor is None:
        return f"{_wait(len(group.ready) + len(group.suspects), 'task')} for {_wanted(group.options)}"
    if actor.rank:
        return f"the actor {actor.title} waits for its engine to start"
    return f"the actor {actor.title} waits for {_wanted(actor.create.options)}"


def _wanted(options: Options) -> str:
    """What a task or an actor asks for, and where."""
    where = "on one node"
    if options.placement:
        where = "in the placement group"
    elif options.node and not options.soft:
        where = f"on the node {options.node}"
    return f"{describe(options.resources)} {where}"


def _actors(board: Board) -> list[str]:
    waiting = [actor for actor in board.actors.values() if actor.calls.count and actor.state is not ActorState.ALIVE]
    return [
        f"{_wait(actor.calls.count, 'call')} for the actor {actor.title}, which is {actor.state.name}"
        for actor in waiting[:SHOWN]
    ]


def _placements(board: Board) -> list[str]:
    reasons: list[str] = []
    for id_ in board.unplaced:
        create = board.placements[id_].create
        title = f"the placement group {create.name!r}" if create.name else "a placement group"
        reasons.append(f"{title} waits for its resources: {create.strategy} of {listed(create.bundles)}")
    return reasons


def _seats(board: Board) -> list[str]:
    reasons: list[str] = []
    if board.wanted:
        why = "a free slot on a node" if board.nodes else "a node to connect"
        reasons.append(f"{_wait(len(board.wanted), 'seat')} for {why}")
    reasons += [
        f"{rank_name(seat.rank)} is tried again later, after {seat.failures} failures: {seat.trouble}"
        for seat in troubled(board)[:SHOWN]
    ]
    return reasons


def troubled(board: Board) -> list[Seat]:
    """Seats that wait for an engine after one has failed, lowest rank first."""
    ready = (SeatState.IDLE, SeatState.BUSY)
    seats = [seat for seat in board.seats.values() if seat.trouble and seat.state not in ready]
    return sorted(seats, key=lambda seat: seat.rank)
