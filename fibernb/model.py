"""The nouns that every layer shares: ids, resources, calls and their results.

Ids are plain integers, since they are dictionary keys on the hot path. A client picks a random
23-bit number for itself; the ids of its tasks and objects are that number above a 40-bit counter. A task that
returns *n* values takes *n* ids: value *i* of task *t* is object *t + i*.
"""

from __future__ import annotations

import enum
from typing import Annotated, Final, TypeAlias

import msgspec

ClientId: TypeAlias = int
TaskId: TypeAlias = int
ObjectId: TypeAlias = int
EngineId: TypeAlias = int  # one process; a seat that is filled again gets a new one
Rank: TypeAlias = int  # the seat; stays when its engine is replaced
Digest: TypeAlias = bytes  # of a function's pickle

Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

CLIENT_BITS: Final = 23
COUNTER_BITS: Final = 40
MAX_RETURNS: Final = 100_000  # values of one task


def first_id(client: ClientId) -> int:
    """Lowest task or object id of a client."""
    return client << COUNTER_BITS


def client_of(id_: int) -> ClientId:
    """The client that made a task or object id."""
    return id_ >> COUNTER_BITS


class Struct(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Base of the records that travel: immutable, by keyword, compact on the wire."""


class Resources(Struct, frozen=True, kw_only=True):
    """What a task needs or a node has. Amounts are in thousandths (memory: bytes), so sums are exact."""

    milli_cpus: Amount = 1000
    milli_gpus: Amount = 0
    memory_bytes: Amount = 0
    custom: dict[str, Amount] = {}  # name to thousandths


ONE_CPU: Final = Resources()


class TaskOptions(Struct, frozen=True, kw_only=True):
    """How a task is to be run; shared by all calls of one submission."""

    name: str = ""  # what people call the function
    resources: Resources = ONE_CPU
    num_returns: Annotated[int, msgspec.Meta(ge=0, le=MAX_RETURNS)] = 1
    max_retries: int = 3  # after engine death
    retry_exceptions: bool = False


DEFAULT_OPTIONS: Final = TaskOptions()


class Call(Struct, frozen=True, kw_only=False, gc=False):
    """One call of a function: its id, its pickled arguments, and the objects that they refer to."""

    id: TaskId
    args: bytes
    deps: tuple[ObjectId, ...] = ()


class Outcome(enum.IntEnum):
    """How a task ended."""

    OK = 0
    ERROR = 1  # value is a pickled exception
    CANCELLED = 2  # value is a pickled TaskCancelled or KeyboardInterrupt


class Result(Struct, frozen=True, kw_only=False, gc=False):
    """What a task came to; also the form in which an object's value travels.

    ``value`` is a pickle (of the value or of the exception); ``more`` holds the values after the first of a task that
    returns several.
    """

    id: TaskId
    value: bytes
    outcome: Outcome = Outcome.OK
    more: tuple[bytes, ...] = ()


class Bar(Struct, frozen=True, kw_only=True):
    """The state of one progress bar on one engine. ``total`` is None when it is not known."""

    bar: int
    description: str = ""
    done: float = 0.0
    total: float | None = None
    unit: str = "it"
    elapsed_s: float = 0.0
    closed: bool = False
