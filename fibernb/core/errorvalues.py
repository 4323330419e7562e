"""The pickled errors that the scheduler itself answers with.

The scheduler never unpickles anything and never holds a live error: it asks a factory for the bytes of a value, which
the client unpickles like any other result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fibernb import serialize
from fibernb.errors import (
    ActorDied,
    ObjectLost,
    OutOfMemory,
    SerializationError,
    TaskCancelled,
    TaskError,
    TaskUnschedulable,
    WorkerDied,
)
from fibernb.model import ObjectId, Rank


class ErrorFactory(Protocol):
    """Makes the bytes of error values, and tells of any what people need to see."""

    def told(self, value: bytes) -> str: ...

    def worker_died(self, rank: Rank, node: str, exit_code: int | None, last_output: str, evidence: str) -> bytes: ...

    def out_of_memory(self, rank: Rank, node: str, exit_code: int | None, last_output: str, evidence: str) -> bytes: ...

    def actor_died(self, actor: str, reason: str, exit_code: int | None = None) -> bytes: ...

    def cancelled(self, reason: str, engine_replaced: bool = False) -> bytes: ...

    def unschedulable(self, asked: str, available: str) -> bytes: ...

    def no_such_rank(self, rank: Rank, seats: int) -> bytes: ...

    def unknown_object(self, object_id: ObjectId) -> bytes: ...

    def object_lost(self, object_id: ObjectId, reason: str) -> bytes: ...

    def too_large(self, size_bytes: int, limit_bytes: int) -> bytes: ...

    def refused(self, reason: str) -> bytes: ...


def dump_error(error: BaseException) -> bytes:
    """An error without a traceback, as results carry it."""
    return serialize.dumps_error(error, "")


class ErrorValues:
    """The errors of `fibernb.errors`. ``dumps`` makes the bytes of one."""

    def __init__(self, dumps: Callable[[BaseException], bytes] = dump_error) -> None:
        self._dumps = dumps
        self._cancelled: dict[tuple[str, bool], bytes] = {}  # a whole map may be cancelled at once

    def told(self, value: bytes) -> str:
        return serialize.told_error(value)

    def worker_died(self, rank: Rank, node: str, exit_code: int | None, last_output: str, evidence: str) -> bytes:
        return self._dumps(WorkerDied(rank, node, exit_code, last_output, evidence))

    def out_of_memory(self, rank: Rank, node: str, exit_code: int | None, last_output: str, evidence: str) -> bytes:
        return self._dumps(OutOfMemory(rank, node, exit_code, last_output, evidence))

    def actor_died(self, actor: str, reason: str, exit_code: int | None = None) -> bytes:
        return self._dumps(ActorDied(f"{actor} does not answer: {reason}", exit_code))

    def cancelled(self, reason: str, engine_replaced: bool = False) -> bytes:
        key = (reason, engine_replaced)
        if key not in self._cancelled:
            error = TaskCancelled(reason)
            error.engine_replaced = engine_replaced
            self._cancelled[key] = self._dumps(error)
        return self._cancelled[key]

    def unschedulable(self, asked: str, available: str) -> bytes:
        text = (
            f"it asks for {asked}, and all that this cluster can have is {available}: ask for less, scale up, or name "
            "what there is when the cluster is started: init(num_gpus=..., resources={...})"
        )
        return self._dumps(TaskUnschedulable(text))

    def no_such_rank(self, rank: Rank, seats: int) -> bytes:
        ranks = {0: "the cluster has no seats", 1: "the only rank is 0"}.get(seats, f"ranks are 0 to {seats - 1}")
        return self._dumps(TaskUnschedulable(f"there is no rank {rank}: {ranks}; choose one of them, or scale up"))

    def unknown_object(self, object_id: ObjectId) -> bytes:
        text = f"the cluster does not have object {object_id:#x}, or not any more since nobody held it: make it again"
        return self._dumps(ObjectLost(text))

    def object_lost(self, object_id: ObjectId, reason: str) -> bytes:
        return self._dumps(ObjectLost(f"the value of object {object_id:#x} is lost: {reason}"))

    def too_large(self, size_bytes: int, limit_bytes: int) -> bytes:
        text = (
            f"the arguments and inputs of the task take {size_bytes:,} bytes together, more than the {limit_bytes:,} "
            "that a message may have: pass fewer or smaller ones, or let the task read the data itself"
        )
        return self._dumps(SerializationError(text))

    def refused(self, reason: str) -> bytes:
        return self._dumps(TaskError(reason))
