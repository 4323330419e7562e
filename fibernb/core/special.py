"""Tasks that need more, or less, than a seat, and actors that are to be made: where they run, and when.

A task runs where its resources are free, on an idle seat or on an engine beside the seats. If there is none of the
kind, one is asked for, and the task stays in the queue until that is there; an actor gets its resources first and
then an engine of its own.
"""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from fibernb.core import auxiliary, leasing
from fibernb.core.actors import Actor
from fibernb.core.board import Board
from fibernb.core.leases import Bundle, Lease, Room
from fibernb.core.nodes import SEAT_MILLI, Node, often
from fibernb.core.seats import Engine
from fibernb.core.sending import portion, send
from fibernb.core.states import ActorState
from fibernb.core.tasks import Group
from fibernb.model import ActorOptions, Rank, Resources, TaskOptions

STARVE: Final = ("starve", 0)
Options: TypeAlias = TaskOptions | ActorOptions


class Vehicle(NamedTuple):
    """What a task can run on now. ``room`` None: its resources are taken already."""

    engine: Engine
    room: Room | None


def send_special(board: Board, now: float) -> None:
    """Send what can be sent, and ask for engines where one is all that is missing."""
    board.roomier = board.special.fresh = False
    found: list[Vehicle] = []

    def accept(group: Group) -> bool:
        vehicle = _actors_vehicle(board, group, now) if group.actor else _vehicle(board, group, now)
        if vehicle is not None:
            found.append(vehicle)
        return vehicle is not None

    while True:
        for pool in board.pools.values():
            pool.asked = 0
        group = board.special.find(accept)
        if group is None:
            break
        _send(board, group, found.pop(), now)
        board.starving_since = None
    _note_starving(board, now)


def _send(board: Board, group: Group, vehicle: Vehicle, now: float) -> None:
    engine, room = vehicle
    count = 1
    if room is not None:
        asked = group.options.resources
        at_once = min(often(_free(room), asked), board.settings.max_starting)
        count = portion(board, engine, group, len(group.ready), at_once)
        leasing.take(board, engine, room, asked)
    engine.alone = True
    send(board, engine, board.special.take(group, count), now)


def _free(room: Room) -> Resources:
    return room.stock.free(room.free_milli())


# ---- where -----------------------------------------------------------------------------------------------


def places(board: Board, options: Options) -> list[tuple[Room, Node]]:
    """Where a task's resources are free now, best first."""
    asked = options.resources
    if options.placement:
        bundles = _bundles(board, options)
        return [(bundle, bundle.node) for bundle in bundles if bundle.node is not None and bundle.fits(asked)]
    fitting: list[tuple[Room, Node]] = [(node, node) for node in board.nodes.values() if node.fits(asked)]
    if options.node:
        there = [place for place in fitting if place[1].name == options.node]
        return there if there or not options.soft else fitting
    if len(fitting) > 1:
        fitting.sort(key=lambda place: _crowding(place[1], options))
    return fitting


def _bundles(board: Board, options: Options) -> list[Bundle]:
    placement = board.placements.get(options.placement)
    return [] if placement is None else placement.choice(options.bundle)


def _crowding(node: Node, options: Options) -> tuple[int, str]:
    """Small for the node to be chosen: where least runs, or, to pack, where a seat is idle."""
    if options.spread:
        return node.seats - node.idle + node.extras, node.name
    return int(not node.idle), node.name


def _vehicle(board: Board, group: Group, now: float) -> Vehicle | None:
    options = group.options
    found = places(board, options)
    for room, node in found:
        engine = _engine_on(board, node, options)
        if engine is not None:
            return Vehicle(engine, room)
    if found:
        room, node = found[0]
        count = min(len(group.ready) + len(group.suspects), often(_free(room), options.resources))
        auxiliary.ask(board, auxiliary.pool_of(board, node.name, options.environment), count, now)
    return None


def _engine_on(board: Board, node: Node, options: Options) -> Engine | None:
    """An idle engine. What needs no cpu leaves the seats to others, for it may stay long."""
    if not options.environment and options.resources.milli_cpus and node.idle:
        return board.engine_of(_lowest_idle(board, node))
    pool = board.pools.get((node.name, options.environment))
    rank = auxiliary.idle_rank(pool) if pool is not None else None
    return None if rank is None else board.engine_of(rank)


def _lowest_idle(board: Board, node: Node) -> Rank:
    lowest = board.idle.lowest()
    assert lowest is not None
    if board.engine_of(lowest).node == node.name:
        return lowest
    return next(rank for rank in board.idle.in_order() if board.engine_of(rank).node == node.name)


# ---- actors ----------------------------------------------------------------------------------------------


def _actors_vehicle(board: Board, group: Group, now: float) -> Vehicle | None:
    """The engine of an actor's own, as soon as it is there. It is asked for when the resources are free."""
    actor = board.actors[group.actor]
    if not actor.rank:
        _place(board, actor, now)
        return None
    engine = board.seats[actor.rank].engine
    return Vehicle(engine, None) if engine is not None and engine.usable and not engine.line else None


def _place(board: Board, actor: Actor, now: float) -> None:
    options = actor.create.options
    for room, node in islice(places(board, options), 1):
        actor.lease = Lease(room, node, options.resources, lasting=True)
        actor.rank = auxiliary.add_seat(board, node.name, options.environment, actor.id, now).rank
        if actor.state is ActorState.PENDING:
            actor.move(ActorState.STARTING)


# ---- those that wait long --------------------------------------------------------------------------------


def _note_starving(board: Board, now: float) -> None:
    """Remember since when tasks wait that would fit if seats fell idle."""
    if not any(_starves(board, group) for group in board.special.groups()):
        board.starving_since = None
        board.timers.cancel(STARVE)
    elif board.starving_since is None:
        board.starving_since = now
        board.timers.set(STARVE, now + board.settings.starve_s)


def _starves(board: Board, group: Group) -> bool:
    """Whether seats that fall idle would help. Who has a placement group, or needs no cpu, does not wait for these."""
    actor = board.actors.get(group.actor)
    if actor is not None and actor.rank:
        return False
    options: Options = group.options if actor is None else actor.create.options
    if options.placement or not options.resources.milli_cpus:
        return False
    return any(_could_fit_soon(node, options.resources, board.scaling.seats) for node in board.nodes.values())


def _could_fit_soon(node: Node, asked: Resources, seats: int) -> bool:
    """Whether it would fit if all tasks had ended, though not what lasts."""
    return node.could_fit(asked, seats) and asked.milli_cpus + node.lasting_milli <= seats * SEAT_MILLI


def held_for_special(board: Board, now: float) -> bool:
    """Whether ordinary tasks have to leave seats idle for others that have waited long."""
    since = board.starving_since
    return since is not None and board.special.count > 0 and now >= since + board.settings.starve_s
