"""Who uses the cluster: clients attach, break off, come back, leave; with the last one the cluster ends.

A client whose link broke has a lease. When that is over, or the client says goodbye, it holds nothing any more, and
its tasks are cancelled, but for those whose values others need. A client in an engine ends with that engine. The
cluster ends with the lease of its last other client, unless someone asked to keep it.
"""

from __future__ import annotations

from typing import Final

from fibernb.core.board import Board
from fibernb.core.cancelling import abandon, children_of, stop_tasks
from fibernb.core.clients import Client, Parcel
from fibernb.core.commands import DropClient, ShutDown
from fibernb.core.events import ClientAttached, ClientGone
from fibernb.core.holding import doubt, needed, release_all
from fibernb.core.messages import Acknowledge, Goodbye, HubStops, Recovered
from fibernb.core.reporting import seats_message
from fibernb.core.states import ClientState
from fibernb.core.tasks import Task
from fibernb.model import Result

EMPTY: Final = ("empty", 0)


def client_attached(board: Board, event: ClientAttached, now: float) -> None:
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
        _catch_up(board, client, now)
    if client.engine is None:
        board.timers.cancel(EMPTY)
        board.tell_client(client, seats_message(board))


def _catch_up(board: Board, client: Client, now: float) -> None:
    """Send what a client may have missed: what tasks said first, then results.

    The break may have swallowed that it released objects, so it tells again which ones it holds.
    """
    doubt(board, client, now)
    for said in client.take_backlog():
        board.tell_client(client, said)
    for parcel in client.unacknowledged:
        board.tell_client(client, parcel.message)
    if client.outbox or client.gifts:
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
        _forget_parcel(board, parcel)


def _forget_parcel(board: Board, parcel: Parcel) -> None:
    if parcel.answers:
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
    """Nobody waits for what this client asked for: stop it, unless others need it, and keep nothing."""
    release_all(board, client)
    client.silent = True
    for task in sorted(_tasks_of(board, client), key=lambda task: -task.id):  # later ones may need earlier ones
        if needed(board, task):
            task.group.tied = True
            continue
        stop_tasks(board, children_of(board, task.id), False, True, now)
        if task.id in board.tasks:
            abandon(board, task)
    for parcel in client.unacknowledged:
        _forget_parcel(board, parcel)
    _forget_answers(board, client.outbox)
    for receipt in client.receipts:
        board.settle(receipt)
    for digest in client.functions:
        board.functions.drop(digest)
    del board.clients[client.id]
    board.outgoing.pop(client.id, None)
    board.timers.cancel(("lease", client.id))
    board.commands.append(DropClient(client=client.id))


def _tasks_of(board: Board, client: Client) -> list[Task]:
    return [task for task in board.tasks.values() if task.group.client is client]
