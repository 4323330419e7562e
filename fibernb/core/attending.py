"""Who uses the cluster: clients attach, break off, come back, leave; with the last one the cluster ends.

A client whose link broke has a lease. When that is over, or the client says goodbye, its tasks are cancelled and its
objects freed. A client in an engine ends with that engine. The cluster ends with the lease of its last other client,
unless someone asked to keep it.
"""

from __future__ import annotations

from typing import Final

from fibernb.core.board import Board
from fibernb.core.cancelling import abandon, children_of, stop_tasks
from fibernb.core.clients import Client
from fibernb.core.commands import DropClient, ShutDown
from fibernb.core.events import ClientAttached, ClientGone
from fibernb.core.messages import Acknowledge, Goodbye, HubStops, Recovered
from fibernb.core.reporting import seats_message
from fibernb.core.states import ClientState
from fibernb.model import Result

EMPTY: Final = ("empty", 0)


def client_attached(board: Board, event: ClientAttached) -> None:
    client = board.clients.get(event.client)
    fresh = client is None
    if client is None:
        client = board.clients[event.client] = Client(event.client, event.lease_s, event.engine)
    elif not client.attached:
        client.move(ClientState.ATTACHED)
        board.timers.cancel(("lease", client.id))
    client.lease_s = event.lease_s
    board.tell_client(client, Recovered(fresh=fresh))
    if not fresh:
        _catch_up(board, client)
    if client.engine is None:
        board.timers.cancel(EMPTY)
        board.tell_client(client, seats_message(board))


def _catch_up(board: Board, client: Client) -> None:
    """Send what a client may have missed: what tasks said first, then results.

    The break may have swallowed that it released objects, so it tells again which ones it holds, before it refers to
    any.
    """
    _release_all(board, client)
    for said in client.take_backlog():
        board.tell_client(client, said)
    for parcel in client.unacknowledged:
        board.tell_client(client, parcel.message)
    if client.outbox:
        board.outgoing[client.id] = client


def client_gone(board: Board, event: ClientGone, now: float) -> None:
    client = board.clients.get(event.client)
    if client is not None and client.attached:
        client.move(ClientState.LEASED)
        board.timers.set(("lease", client.id), now + client.lease_s)


def lease_over(board: Board, client: Client, now: float) -> None:
    end_client(board, client, now)
    shut_down_if_empty(board, "the last client has gone and its lease is over")


def goodbye(board: Board, client: Client, message: Goodbye, now: float) -> None:
    """A client leaves for good. Without ``stop`` the cluster waits for another one as long as the lease would last."""
    end_client(board, client, now)
    if message.stop:
        shut_down_if_empty(board, "its last client ended it")
    elif not any(board.users()):
        board.timers.set(EMPTY, now + client.lease_s)


def shut_down_if_empty(board: Board, reason: str) -> None:
    if not board.detached and not any(board.users()):
        shut_down(board, reason)


def shut_down(board: Board, reason: str) -> None:
    """End the cluster."""
    for client in board.clients.values():
        if client.attached:
            board.tell_client(client, HubStops(reason=reason))
    board.commands.append(ShutDown(reason=reason))
    board.stopped = True


def acknowledge(board: Board, client: Client, message: Acknowledge) -> None:
    """The client has taken in all `Deliver` messages up to this one: nothing of them is kept."""
    parcels = client.unacknowledged
    while parcels and parcels[0].message.sequence <= message.sequence:
        parcel = parcels.popleft()
        _forget_answers(board, parcel.message.results)
        for receipt in parcel.receipts:
            board.settle(receipt)


def _forget_answers(board: Board, results: list[Result]) -> None:
    answers, part_of = board.answers, board.part_of
    for result in results:
        answers.pop(result.id, None)
    if part_of:
        for result in results:
            _forget_parts(board, result.id)


def _forget_parts(board: Board, task_id: int) -> None:
    part = task_id + 1
    while board.part_of.get(part) == task_id:
        del board.part_of[part]
        board.answers.pop(part, None)
        part += 1


def end_client(board: Board, client: Client, now: float) -> None:
    """Nobody waits for what this client asked for: stop it, and keep nothing."""
    own = [task for task in board.tasks.values() if task.group.client is client]
    stop_tasks(board, [child for task in own for child in children_of(board, task.id)], False, True, now)
    for task in own:
        if task.id in board.tasks:
            abandon(board, task)
    for parcel in client.unacknowledged:
        _forget_answers(board, parcel.message.results)
        for receipt in parcel.receipts:
            board.settle(receipt)
    _forget_answers(board, client.outbox)
    for receipt in client.receipts:
        board.settle(receipt)
    _release_all(board, client)
    for digest in client.functions:
        board.functions.drop(digest)
    del board.clients[client.id]
    board.outgoing.pop(client.id, None)
    board.timers.cancel(("lease", client.id))
    board.commands.append(DropClient(client=client.id))


def _release_all(board: Board, client: Client) -> None:
    for object_id in client.objects:
        board.objects.release(object_id)
    client.objects.clear()
