"""Who holds which objects, and how their values come to those who ask.

A client holds what it has put, what it has told by `Hold`, and those results of its tasks that stand in blocks or
contain references; it may fetch what it holds. After a break of its link it tells again what it holds; what it has
not told some time later it holds no more.
"""

from __future__ import annotations

from typing import Final

from fibernb.core.board import Board
from fibernb.core.clients import Client
from fibernb.core.messages import Hold, Release
from fibernb.core.objects import Entry
from fibernb.core.tasks import Task
from fibernb.model import ClientId, ObjectId, Outcome, Result

DOUBT: Final = "doubt"


def missing(board: Board, object_id: ObjectId) -> Result:
    """What stands for an object that is not there."""
    return Result(object_id, board.errors.unknown_object(object_id), Outcome.ERROR)


def known_value(board: Board, object_id: ObjectId) -> Result | None:
    """What is known of an object that has no entry: its value, that it is to come (None), or that it is nowhere.

    A value in blocks, or with references, that has no entry was given up by its holders.
    """
    vehicle = board.actors.get(object_id) or board.placements.get(object_id)
    if vehicle is not None:
        return vehicle.value
    known = board.answers.get(object_id)
    if known is not None:
        return missing(board, object_id) if is_stored(known) else known
    return None if board.unsettled or will_come(board, object_id) else missing(board, object_id)


def will_come(board: Board, object_id: ObjectId) -> bool:
    """Whether an object that is not there is in the making."""
    tables = (board.tasks, board.part_of, board.actors, board.placements)
    return any(object_id in table for table in tables)


def is_stored(result: Result) -> bool:
    """Whether a value is more than the bytes that stand in the result."""
    return bool(result.blocks or result.refs)


def entry_of(board: Board, object_id: ObjectId, known: Result | None = None) -> Entry:
    """The entry of an object, made with its value if there is none: ``known``, or what is known of it."""
    entry = board.objects.entries.get(object_id)
    if entry is None:
        entry = board.objects.entry(object_id, known or known_value(board, object_id))
    return entry


def needed(board: Board, task: Task) -> bool:
    """Whether someone holds a value of this task, or uses it."""
    entries = board.objects.entries
    ids = range(task.id, task.id + max(1, task.group.options.num_returns))
    return any(id_ in entries and entries[id_].needed for id_ in ids)


def keep(board: Board, result: Result) -> None:
    """A value is kept from now on, and with it the blocks that it stands in and the objects that it contains."""
    board.objects.keep_blocks(result)
    for object_id in result.refs:
        entry_of(board, object_id).uses += 1


# ---- what clients say ------------------------------------------------------------------------------------


def hold_entry(client: Client, object_id: ObjectId, entry: Entry) -> None:
    """The client holds this object, if it did not do so already."""
    client.doubtful.discard(object_id)
    if object_id not in client.objects:
        client.objects.add(object_id)
        entry.holders += 1


def hold(board: Board, client: Client, message: Hold) -> None:
    for object_id in message.objects:
        hold_entry(client, object_id, entry_of(board, object_id))


def release(board: Board, client: Client, message: Release) -> None:
    board.released = True
    for object_id in message.objects:
        if object_id in client.objects:
            client.objects.remove(object_id)
            client.doubtful.discard(object_id)
            board.objects.entries[object_id].fetchers.pop(client.id, None)
            board.objects.release(object_id)


def give(board: Board, client_id: ClientId, result: Result) -> None:
    """Deliver a value that a client has asked for, if it is still there."""
    client = board.clients.get(client_id)
    if client is not None:
        client.gifts.append(result)
        board.outgoing[client_id] = client


# ---- clients that break off, and end ---------------------------------------------------------------------


def doubt(board: Board, client: Client, now: float) -> None:
    """A client has come back. What is on its way to it, it cannot have released."""
    coming = {part.id for result in client.on_the_way() for part in (result, *result.more)}
    client.doubtful = client.objects - coming
    if client.doubtful:
        board.timers.set((DOUBT, client.id), now + board.settings.doubt_s)


def doubt_over(board: Board, client: Client) -> None:
    """What the client has not told again, it holds no more."""
    release(board, client, Release(objects=sorted(client.doubtful)))


def release_all(board: Board, client: Client) -> None:
    """A client has ended."""
    board.timers.cancel((DOUBT, client.id))
    release(board, client, Release(objects=list(client.objects)))
