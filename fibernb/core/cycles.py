"""Actors that only hold each other, or themselves: nobody can reach them any more, so they end.

Counts alone never let them go. So some time after somebody has released something, what actors hold is walked through.
Whatever all these holdings together do not explain of an object's count, comes from outside: a client, a task that has
not ended, a value that somebody holds. What can be reached from there stays, as do actors that have calls to do, and
detached ones with all that they hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from fibernb.core.acting import creation, retire
from fibernb.core.actors import Actor
from fibernb.core.board import Board
from fibernb.core.clients import Client
from fibernb.core.objects import named_by
from fibernb.model import ObjectId

CYCLES: Final = ("cycles", 0)


def look_soon(board: Board, now: float) -> None:
    """Something was released: what is left of it may be a cycle."""
    board.released = False
    if board.actors:
        board.timers.set_default(CYCLES, now + board.settings.cycles_s)


def end_cycles(board: Board, now: float) -> None:
    """End the actors that only such actors hold, and look again later if there are others that may come to that."""
    inside = _clients_by_actor(board)
    if board.unsettled or not _only_held_by_actors(board, inside):
        return
    for actor in _unreachable(board, inside):
        retire(board, actor, "only actors that nobody else can reach held it", now)
    board.timers.set_default(CYCLES, now + board.settings.cycles_s)


def _clients_by_actor(board: Board) -> dict[ObjectId, list[Client]]:
    """The clients that live in the engines of actors."""
    found: dict[ObjectId, list[Client]] = {}
    for client in board.clients.values():
        engine = board.engines.get(client.engine or 0)
        if engine is not None and engine.actor:
            found.setdefault(engine.actor, []).append(client)
    return found


def _only_held_by_actors(board: Board, inside: dict[ObjectId, list[Client]]) -> bool:
    """Whether there is an actor that no other client holds. This is quickly found out."""
    alive = _alive(board)
    held = Counter(id_ for clients in inside.values() for client in clients for id_ in client.objects & alive)
    entries = board.objects.entries
    return any(id_ in entries and entries[id_].holders == held[id_] for id_ in alive)


def _alive(board: Board) -> set[ObjectId]:
    return {id_ for id_, actor in board.actors.items() if not actor.dead}


def _unreachable(board: Board, inside: dict[ObjectId, list[Client]]) -> list[Actor]:
    alive = _alive(board)
    explained: Counter[ObjectId] = Counter()
    walked = _walk(board, inside, alive, explained)
    roots = {id_ for id_ in walked if id_ in alive and _stays(board.actors[id_])}
    for id_ in walked & board.objects.entries.keys():
        entry = board.objects.entries[id_]
        if entry.holders + entry.uses > explained[id_]:
            roots.add(id_)
    return [board.actors[id_] for id_ in sorted(alive - _walk(board, inside, roots, Counter()))]


def _stays(actor: Actor) -> bool:
    """Whether an actor would live on though nobody held it."""
    return actor.detached or bool(actor.groups)


def _walk(
    board: Board, inside: dict[ObjectId, list[Client]], start: Iterable[ObjectId], explained: Counter[ObjectId]
) -> set[ObjectId]:
    """All that can be reached from there; counts how often each is referred to on the way."""
    seen = set(start)
    rest = list(seen)
    while rest:
        for id_ in _holdings(board, inside, rest.pop()):
            explained[id_] += 1
            if id_ not in seen:
                seen.add(id_)
                rest.append(id_)
    return seen


def _holdings(board: Board, inside: dict[ObjectId, list[Client]], id_: ObjectId) -> Iterator[ObjectId]:
    """What an actor or a value keeps, as often as that counts."""
    actor = board.actors.get(id_)
    if actor is not None and not actor.dead:
        yield from named_by(creation(actor))
        for client in inside.get(id_, ()):
            yield from client.objects
    entry = board.objects.entries.get(id_)
    if entry is not None and entry.result is not None:
        yield from entry.result.refs
