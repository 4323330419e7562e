"""What the hub tells of actors, objects, engines and what they ran, as typed rows."""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeVar

import msgspec

R = TypeVar("R", bound=msgspec.Struct)


class ActorRow(msgspec.Struct, frozen=True, kw_only=True):
    """``ended``: why, if it has."""

    class_name: str = ""
    name: str = ""
    state: str = ""
    pid: int | None = None
    restarts: int = 0
    queued: int = 0
    running: int = 0
    ended: str = ""


class ObjectRow(msgspec.Struct, frozen=True, kw_only=True):
    """``made_by``: the function; ``uses``: by tasks that have not ended, and by values that contain it."""

    state: str = ""
    made_by: str = ""
    size_bytes: int = 0
    blocks: list[str] = []  # of the object store
    holders: list[str] = []
    uses: int = 0


class EngineRow(msgspec.Struct, frozen=True, kw_only=True):
    """``rank`` below 0: an engine beside the seats."""

    rank: int
    state: str = ""
    pid: int | None = None
    function: str = ""
    queued: int = 0
    deaths: int = 0
    busy_s: float = 0.0
    actor_id: str = ""


class SpanRow(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one function that one engine ran one after the other. Times are those of the host's monotonic clock.
    ``waited_s``: how long the first of them had waited for an engine.
    """

    rank: int
    name: str
    began_s: float
    ended_s: float
    count: int = 1
    failed: int = 0
    waited_s: float = 0.0


class WaitRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task that waited for others ("blocked", on its rank), or calls that wait for an engine ("queued"). ``open``: so
    far.
    """

    kind: str
    rank: int | None
    name: str
    began_s: float
    ended_s: float
    count: int = 1
    open: bool = False


class Asked(Protocol):
    """What of a session is needed here."""

    def state(self, kind: str, limit: int, where: dict[str, str]) -> tuple[list[dict[str, Any]], int]:
        """Rows, at most so many, and how many there are."""


LIMIT: Final = 10_000
TOLD_BYTES: Final = 1000  # the size from which on people want to know of an object


def largest(objects: list[ObjectRow], count: int) -> list[ObjectRow]:
    """Of these, so many of the largest, largest first; without the small ones that are there."""
    told = [row for row in objects if row.size_bytes >= TOLD_BYTES or row.state != "READY"]
    return sorted(told, key=lambda row: -row.size_bytes)[:count]


def ask(session: Asked, kind: str, row: type[R], limit: int = LIMIT) -> tuple[list[R], int]:
    """The rows of one kind, and how many there are beyond the limit too."""
    rows, total = session.state(kind, limit, {})
    return msgspec.convert(rows, list[row]), total  # type: ignore[valid-type]
