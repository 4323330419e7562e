"""What a client and an engine say to each other without the hub.

The client dials the engine's door, shows its credentials, and is told `DoorIsOpen`. Then it may send one call at a
time, as a `fibernb.core.messages.Run` of one call. The answer is the value, if it is a small one and all that came of
the call; else `AskHub`: the engine has the result ready for the hub, once that asks for it. `DoorIsShut` is the last
word: what was sent and has no answer will not be run.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from fibernb.core.messages import Message, Run
from fibernb.model import Result, TaskId
from fibernb.wire.codec import Reader
from fibernb.wire.handshake import Credentials

DOOR: Final = "d{engine}"
"""Name of the socket of an engine, in the cluster's directory."""


class DoorHello(Message, frozen=True, kw_only=True):
    credentials: Credentials


class DoorIsOpen(Message, frozen=True, kw_only=True):
    """The answer to a hello."""


class Answered(Message, frozen=True, kw_only=True):
    result: Result


class AskHub(Message, frozen=True, kw_only=True):
    """There was more to this call than a small value: the hub is to be told of it, and will deliver its result."""

    task: TaskId


class DoorIsShut(Message, frozen=True, kw_only=True):
    """The engine has other things to do, or leaves."""


ToDoor: TypeAlias = DoorHello | Run
FromDoor: TypeAlias = DoorIsOpen | Answered | AskHub | DoorIsShut

to_door: Final[Reader[ToDoor]] = Reader(ToDoor)
from_door: Final[Reader[FromDoor]] = Reader(FromDoor)
