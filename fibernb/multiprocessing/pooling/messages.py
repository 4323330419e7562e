"""What a pool's owner and its workers say to each other.

Work travels as *pieces*: runs of neighbouring items of one job. A worker takes its pieces in the order in which they
came, and answers for the items of a piece in order too.
"""

from __future__ import annotations

import enum
from typing import Final, TypeAlias

import msgspec

from fibernb.model import Struct


class Shape(enum.IntEnum):
    """How an item becomes a call of the job's function."""

    ONE = 0  # function(item)
    STAR = 1  # function(*item)
    MANY = 2  # the item is a chunk: a list of function(element)
    STAR_MANY = 3  # the item is a chunk: a list of function(*element)
    CALL = 4  # the item is (args, kwargs)
    WHOLE_CALL = 5  # the item is (function, args, kwargs)


class Form(enum.IntEnum):
    """How several objects are pickled."""

    TOGETHER = 0  # one blob with a list
    APART = 1  # a blob each, so that no two share a part
    ERROR = 2  # one blob with an exception


class Blobs(Struct, frozen=True, kw_only=True):
    """Items on their way to a worker, or values on their way back."""

    form: Form
    data: list[bytes]

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.data))


class Piece(Struct, frozen=True, kw_only=True):
    """A run of items for one worker."""

    number: int
    job: int
    function: int  # number of its code
    shape: Shape
    count: int
    items: Blobs
    goes_on: bool  # more may be sent while the worker runs this


class Message(Struct, frozen=True, kw_only=True, tag=True):
    """Base of everything that travels between a pool's owner and a worker."""


# ---- to a worker ----------------------------------------------------------------------------------------


class Work(Message, frozen=True, kw_only=True):
    """Pieces to run, the code that they need and the worker has not, and the code that it need not keep."""

    pieces: list[Piece]
    functions: dict[int, bytes] = {}
    forget: list[int] = []


class GiveBack(Message, frozen=True, kw_only=True):
    """Another worker is idle: answer `GivenBack` with everything that has not begun."""


class Stop(Message, frozen=True, kw_only=True):
    """Nobody wants this job any more: interrupt it."""

    job: int


class Leave(Message, frozen=True, kw_only=True):
    """There will be no more work: exit when all is done."""


# ---- to the owner ---------------------------------------------------------------------------------------


class Ready(Message, frozen=True, kw_only=True):
    """The worker has run its initializer and takes work."""


class Unfit(Message, frozen=True, kw_only=True):
    """The worker's initializer raised; the worker exits."""

    error: bytes


class Answer(Struct, frozen=True, kw_only=True):
    """The values of the next items of a piece."""

    piece: int
    count: int
    values: Blobs
    seconds: float  # that they took together


class Answers(Message, frozen=True, kw_only=True):
    """What has been done since the last message of this kind."""

    answers: list[Answer]


class Kept(Struct, frozen=True, kw_only=True):
    """Of that piece the worker keeps so many items; the rest comes back, not begun."""

    piece: int
    count: int


class GivenBack(Message, frozen=True, kw_only=True):
    """What the worker gives back."""

    pieces: list[Kept]


ToWorker: TypeAlias = Work | GiveBack | Stop | Leave
ToOwner: TypeAlias = Ready | Unfit | Answers | GivenBack

encoder: Final = msgspec.msgpack.Encoder()
to_worker: Final[msgspec.msgpack.Decoder[ToWorker]] = msgspec.msgpack.Decoder(ToWorker)
to_owner: Final[msgspec.msgpack.Decoder[ToOwner]] = msgspec.msgpack.Decoder(ToOwner)
