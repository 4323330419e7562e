"""What the members of a ring and the process that runs it say to each other."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from fibernb.collectives.meeting import Place
from fibernb.model import Struct


class RingNode(Struct, frozen=True, kw_only=True):
    """Where a member of a ring is. The port was free there when the ring was closed, for whoever wants to listen."""

    rank: int
    ip: str
    port: int
    pid: int
    connected: bool = True


class Position(Struct, frozen=True, kw_only=True, tag=True):
    """A member's place in the ring, which has been rebuilt so many times."""

    place: Place
    generation: int


class Done(Struct, frozen=True, kw_only=True, tag=True):
    """The function has returned this, pickled."""

    value: bytes


class Failed(Struct, frozen=True, kw_only=True, tag=True):
    """The function has raised this, as `serialize.dumps_error` gives it."""

    error: bytes


class Rebuild(Struct, frozen=True, kw_only=True, tag=True):
    """The ring of this generation is broken: answered by the `Position` in the next one, or by `Refused`."""

    generation: int


class Refused(Struct, frozen=True, kw_only=True, tag=True):
    """The ring cannot be rebuilt, because of what has become of this member."""

    rank: int
    reason: str


Word: TypeAlias = Done | Failed | Rebuild
Answer: TypeAlias = Position | Refused

to_owner: Final = msgspec.msgpack.Decoder[Word](Word)
to_member: Final = msgspec.msgpack.Decoder[Answer](Answer)
encode: Final = msgspec.msgpack.Encoder().encode
