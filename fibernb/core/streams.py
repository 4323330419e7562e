"""Tasks whose values come one by one while they run.

Item *i* of a streaming task is an ordinary result with an id of its own, which the client holds from its delivery on.
The client tells how many items it has taken, and the engine does not run further ahead of that than it may. A task that
runs again gives its items again: those that the client was given are passed over.
"""

from __future__ import annotations

from fibernb.core.board import Board
from fibernb.core.clients import Client
from fibernb.core.endings import fail_dependents, supply
from fibernb.core.holding import hold_entry
from fibernb.core.lineage import record
from fibernb.core.messages import Consume
from fibernb.core.objects import Stream
from fibernb.core.receipts import Receipt
from fibernb.core.seats import Engine
from fibernb.core.states import TaskState
from fibernb.core.tasks import Task
from fibernb.model import STREAM_IDS, STREAMING, ObjectId, Result, stream_of


def streaming_task(board: Board, object_id: ObjectId) -> Task | None:
    """The task that runs and of which this would be an item."""
    task = board.tasks.get(stream_of(object_id))
    if task is None or task.id == object_id or task.group.options.num_returns != STREAMING:
        return None
    return task


def take_item(board: Board, engine: Engine | None, task: Task, item: Result, receipt: Receipt) -> None:
    """A value has come. The first one of a further attempt: the engine hears how many were taken already."""
    stream = board.streams.setdefault(task.id, Stream())
    number = item.id - task.id
    client = task.group.client
    if number == 1 and engine is not None and (client.silent or stream.consumed):
        taken = STREAM_IDS if client.silent else stream.consumed
        board.tell_engine(engine, Consume(task=task.id, items=taken))
    if not client.silent and number > stream.delivered:
        stream.delivered = number
        _deliver(board, client, item, receipt)
    failed = supply(board, item, task.group.title)
    record(board, task, [item])
    fail_dependents(board, failed)


def _deliver(board: Board, client: Client, item: Result, receipt: Receipt) -> None:
    hold_entry(client, item.id, board.objects.entry(item.id))
    board.answers[item.id] = item
    client.put(item, receipt)
    board.outgoing[client.id] = client


def consume(board: Board, client: Client, message: Consume) -> None:
    """The client has taken items: the engine may go on."""
    task = board.tasks.get(message.task)
    if task is None or task.group.client is not client or task.group.options.num_returns != STREAMING:
        return
    stream = board.streams.setdefault(task.id, Stream())
    stream.consumed = max(stream.consumed, message.items)
    if task.state in (TaskState.SENT, TaskState.RUNNING):
        tell_consumed(board, task)


def tell_consumed(board: Board, task: Task) -> None:
    """Tell the engine of a task, which has begun, how many of its items were taken."""
    stream = board.streams.get(task.id)
    engine = board.engines.get(task.engine)
    if stream is not None and engine is not None:
        board.tell_engine(engine, Consume(task=task.id, items=stream.consumed))
