"""The nouns that every layer shares: ids, resources, calls and their results.

Ids are plain integers, since they are dictionary keys on the hot path. A client picks a random
23-bit number for itself; the ids of its tasks and objects are that number above a 40-bit counter. A task that
returns *n* values takes *n* ids: value *i* of task *t* is object *t + i*. A streaming task takes `STREAM_IDS` ids, the
first of which is a multiple of that: its item *i* is object *t + 1 + i*, and *t* itself is the number of items. An
actor and a placement group have an object id as well: the object is there (None) once they are, and they end when
nobody holds it any more.
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
BlockId: TypeAlias = int  # a piece of a host's shared memory; generation of its store above a 40-bit counter

Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

CLIENT_BITS: Final = 23
COUNTER_BITS: Final = 40
MAX_RETURNS: Final = 100_000  # values of one task
STREAMING: Final = -1  # as num_returns: the task is a generator
STREAM_IDS: Final = 2**20  # one for the number of items, the others for the items


def first_id(client: ClientId) -> int:
    """Lowest task or object id of a client."""
    return client << COUNTER_BITS


def stream_of(id_: ObjectId) -> TaskId:
    """The streaming task to which an object would belong."""
    return id_ & -STREAM_IDS


def client_of(id_: int) -> ClientId:
    """The client that made a task or object id."""
    return id_ >> COUNTER_BITS


def rank_name(rank: Rank) -> str:
    """What people call the place of an engine: ``rank 3``, or ``extra 3`` beside the declared seats (rank -3)."""
    return f"rank {rank}" if rank >= 0 else f"extra {-rank}"


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
    num_returns: Annotated[int, msgspec.Meta(ge=STREAMING, le=MAX_RETURNS)] = 1
    max_retries: int = 3  # after engine death, loss of the value, or an exception that `retry_exceptions` names
    retry_exceptions: bool | bytes = False  # True: any Exception; bytes: a pickled tuple of exception types
    max_calls: int = 0  # an engine is replaced after so many calls of the function; 0: never
    backpressure: int = 0  # items that a streaming task may be ahead of its consumer; 0: the engine's default
    environment: str = ""  # JSON of a runtime environment; engines serve one only
    placement: ObjectId = 0  # the placement group that the task runs in
    bundle: int = -1  # of that group; -1: any
    node: str = ""  # where it must run,
    soft: bool = False  # or should
    spread: bool = False  # over nodes rather than packed
    captures: bool = False  # what it starts runs in its placement group too


DEFAULT_OPTIONS: Final = TaskOptions()


class Call(Struct, frozen=True, kw_only=False, gc=False):
    """One call of a function: its id, its pickled arguments, and the objects that they refer to."""

    id: TaskId
    args: bytes
    deps: tuple[ObjectId, ...] = ()
    refs: tuple[ObjectId, ...] = ()  # that stand inside of the arguments: kept while the call is not done


class Outcome(enum.IntEnum):
    """How a task ended."""

    OK = 0
    ERROR = 1  # value is a pickled exception
    CANCELLED = 2  # value is a pickled TaskCancelled or KeyboardInterrupt
    RETRY = 3  # only from engines: as ERROR, of a kind that the options tell to try again
    LOST = 4  # only from engines: blocks of the inputs were gone; `Result.blocks` names them


class Result(Struct, frozen=True, kw_only=False, gc=False):
    """What a task came to; also the form in which an object's value travels.

    ``value`` is a pickle (of the value or of the exception); ``more`` holds the values after the first of a task that
    returns several. ``blocks`` are the pieces of shared memory that the value stands in, if it is not all in the
    pickle; ``refs`` are the objects whose references stand inside of the value. Both are kept as long as the value.
    """

    id: TaskId
    value: bytes
    outcome: Outcome = Outcome.OK
    more: tuple[Result, ...] = ()
    blocks: tuple[BlockId, ...] = ()
    refs: tuple[ObjectId, ...] = ()


class ActorOptions(Struct, frozen=True, kw_only=True):
    """How an actor is to be run."""

    name: str = ""  # under which others find it
    namespace: str = ""
    class_name: str = ""  # for people
    detached: bool = False  # lives until it is killed, though nobody holds it
    max_restarts: int = 0  # negative: without end
    max_concurrency: int = 1  # threads, or coroutines at a time
    groups: dict[str, int] = {}  # concurrency groups, each with as many threads or coroutines
    is_async: bool = False
    is_process: bool = False  # of `fibernb.multiprocessing`: killed once nobody holds it, whatever it runs
    resources: Resources = Resources(milli_cpus=0)
    environment: str = ""
    placement: ObjectId = 0
    bundle: int = -1
    node: str = ""
    soft: bool = False
    spread: bool = False
    captures: bool = False


class Bar(Struct, frozen=True, kw_only=True):
    """The state of one progress bar on one engine. ``total`` is None when it is not known."""

    bar: int
    description: str = ""
    done: float = 0.0
    total: float | None = None
    unit: str = "it"
    elapsed_s: float = 0.0
    closed: bool = False
