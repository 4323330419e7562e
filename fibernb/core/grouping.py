"""Placement groups: resources that are reserved on nodes, all of them or none.

What is reserved counts as used on its node; tasks and actors that name the group take from its bundles. A group ends
when it is removed, or when nobody holds it and nothing runs in it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fibernb.core.acting import NONE_VALUE, end_actor, stop_engine
from fibernb.core.board import Board
from fibernb.core.cancelling import kill
from fibernb.core.clients import Client
from fibernb.core.endings import cancelled, end_task, fail_dependents, supply
from fibernb.core.feasible import possible_seats
from fibernb.core.holding import entry_of, hold_entry
from fibernb.core.leases import Bundle
from fibernb.core.messages import CreateGroup, RemoveGroup
from fibernb.core.nodes import Node, largest, listed
from fibernb.core.placements import Placement
from fibernb.core.states import TaskState
from fibernb.core.tasks import Task
from fibernb.model import ObjectId, Outcome, Result


def create_group(board: Board, client: Client, message: CreateGroup) -> None:
    """Reserve resources as soon as they are free; what is known already is left as it is."""
    placement = board.placements.get(message.group)
    if placement is None:
        placement = board.placements[message.group] = Placement(message, client.id)
        board.unplaced[message.group] = None
        board.roomier = True
    board.objects.watched.add(message.group)
    hold_entry(client, message.group, entry_of(board, message.group))
    problem = _impossible(board, placement) if placement.value is None else None
    if problem is not None:
        _decide(board, placement, Result(placement.id, problem, Outcome.ERROR))
        _end(board, placement, "it could never be reserved")


def _decide(board: Board, placement: Placement, value: Result) -> None:
    """It is known what the object of a group is."""
    if placement.value is None:
        placement.value = value
        fail_dependents(board, supply(board, value))


def _impossible(board: Board, placement: Placement) -> bytes | None:
    """An error if the group could never be reserved, even if nothing else was there."""
    seats = possible_seats(board)
    create = placement.create
    if create.strategy not in _STRATEGIES:
        known = ", ".join(_STRATEGIES)
        return board.errors.refused(f"there is no placement strategy {create.strategy!r}: choose one of {known}")
    if not board.nodes or not seats:
        return None
    empty = [Node(node.name, node.slots, node.stock.capacity) for node in board.nodes.values()]
    for node in empty:
        node.idle = seats if node.slots is None else min(seats, node.slots)
    bundles = [Bundle(asked) for asked in create.bundles]
    if _reserve(create.strategy, bundles, empty):
        return None
    asked = f"{create.strategy} of {listed(create.bundles)}"
    nodes = "1 node" if len(empty) == 1 else f"{len(empty)} nodes"
    return board.errors.unschedulable(asked, f"{nodes} with {largest(empty, seats)}")


# ---- reserving -------------------------------------------------------------------------------------------


def place_groups(board: Board) -> None:
    """Reserve what can be reserved, in the order in which groups came."""
    for id_ in list(board.unplaced):
        placement = board.placements[id_]
        missing = [bundle for bundle in placement.bundles if bundle.node is None]
        if _reserve(placement.create.strategy, missing, list(board.nodes.values()), placement.bundles):
            del board.unplaced[id_]
            _decide(board, placement, Result(id_, NONE_VALUE))


def _reserve(strategy: str, bundles: list[Bundle], nodes: list[Node], others: Sequence[Bundle] = ()) -> bool:
    """Place all bundles of a group, or none. ``others``: all of the group, some of which may be placed already."""
    taken = [bundle.node for bundle in others if bundle.node is not None]
    done = _STRATEGIES[strategy](bundles, sorted(nodes, key=lambda node: node.name), taken)
    if not done:
        for bundle in bundles:
            bundle.vacate()
    return done


def _strict_pack(bundles: list[Bundle], nodes: list[Node], taken: list[Node]) -> bool:
    """All on one node."""
    for node in taken[:1] or nodes:
        if all(_place(bundle, [node]) for bundle in bundles):
            return True
        for bundle in bundles:
            bundle.vacate()
    return False


def _pack(bundles: list[Bundle], nodes: list[Node], taken: list[Node]) -> bool:
    """On one node if that is possible, else on few: those first that have the most cpus free."""
    if _strict_pack(bundles, nodes, taken):
        return True
    roomiest = sorted(nodes, key=lambda node: (-node.free_milli(), node.name))
    return all(_place(bundle, roomiest) for bundle in _largest_first(bundles))


def _strict_spread(bundles: list[Bundle], nodes: list[Node], taken: list[Node]) -> bool:
    """Each on a node of its own."""
    used = list(taken)
    for bundle in _largest_first(bundles):
        node = _place(bundle, [node for node in nodes if node not in used])
        if node is None:
            return False
        used.append(node)
    return True


def _spread(bundles: list[Bundle], nodes: list[Node], taken: list[Node]) -> bool:
    """On as many nodes as there are."""
    counts = {node.name: taken.count(node) for node in nodes}
    for bundle in _largest_first(bundles):
        node = _place(bundle, sorted(nodes, key=lambda node: (counts[node.name], node.name)))
        if node is None:
            return False
        counts[node.name] += 1
    return True


def _place(bundle: Bundle, nodes: list[Node]) -> Node | None:
    """Reserve a bundle on the first node where it fits."""
    for node in nodes:
        if node.fits(bundle.asked):
            bundle.place(node)
            return node
    return None


def _largest_first(bundles: list[Bundle]) -> list[Bundle]:
    return sorted(bundles, key=lambda bundle: -bundle.asked.milli_cpus)


_STRATEGIES: Final[dict[str, Callable[[list[Bundle], list[Node], list[Node]], bool]]] = {
    "PACK": _pack,
    "SPREAD": _spread,
    "STRICT_PACK": _strict_pack,
    "STRICT_SPREAD": _strict_spread,
}


# ---- ending ----------------------------------------------------------------------------------------------


def remove_group(board: Board, message: RemoveGroup, now: float) -> None:
    """Give the resources of a group back. What runs or waits in it ends."""
    placement = board.placements.get(message.group)
    if placement is None or placement.ended:
        return
    reason = "its placement group was removed"
    _decide(board, placement, Result(placement.id, board.errors.cancelled(reason), Outcome.CANCELLED))
    _end(board, placement, "it was removed")
    for task in [task for task in board.tasks.values() if task.group.options.placement == placement.id]:
        _stop(board, task, reason, now)
    for actor in [actor for actor in board.actors.values() if actor.create.options.placement == placement.id]:
        if not actor.dead:
            end_actor(board, actor, reason, None)
            stop_engine(board, actor, reason, now)


def _end(board: Board, placement: Placement, reason: str) -> None:
    placement.ended = reason
    board.unplaced.pop(placement.id, None)
    board.roomier = True
    for bundle in placement.bundles:
        bundle.vacate()


def _stop(board: Board, task: Task, reason: str, now: float) -> None:
    engine = board.engines.get(task.engine) if task.state in (TaskState.SENT, TaskState.RUNNING) else None
    if engine is None:
        end_task(board, task, cancelled(board, task, reason))
    else:
        task.cancelling = True
        kill(board, engine, reason, now)


def drop_unheld(board: Board, now: float) -> None:
    """Groups that nobody holds end, when nothing runs in them any more. A detached one stays until it is removed."""
    for id_ in list(board.unheld_placements):
        placement = board.placements[id_]
        if id_ in board.objects.entries:
            board.objects.watched.add(id_)
            del board.unheld_placements[id_]
        elif placement.ended or not (placement.create.detached or _in_use(board, id_)):
            remove_group(board, RemoveGroup(group=id_), now)
            del board.placements[id_], board.unheld_placements[id_]


def _in_use(board: Board, id_: ObjectId) -> bool:
    return any(group.options.placement == id_ for group in board.groups.values()) or any(
        actor.create.options.placement == id_ and not actor.dead for actor in board.actors.values()
    )


def node_lost(board: Board, node: Node) -> None:
    """What groups had reserved on a node is gone with it; they try to have it elsewhere."""
    for placement in board.placements.values():
        for bundle in placement.bundles:
            if bundle.node is node:
                bundle.vacate()
                board.unplaced[placement.id] = None


def asked_milli(board: Board) -> int:
    """Cpus that groups wait for."""
    waiting = (board.placements[id_] for id_ in board.unplaced)
    return sum(bundle.asked.milli_cpus for group in waiting for bundle in group.bundles if bundle.node is None)
