"""Where errors are kept that ``%fiber debug`` can look at: on ranks, and in the processes of actors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from fibernb import serialize
from fibernb.client.calls import PinnedCalls
from fibernb.client.cells import CellHandle
from fibernb.client.handles import ActorHandle, defined_method
from fibernb.client.refs import ActorGroup, ObjectRef
from fibernb.client.session import Session
from fibernb.engine.actors import CALL
from fibernb.model import ObjectId, Rank, TaskOptions, rank_name
from fibernb.notebook.rows import LIMIT, ask

EXTRA: Final = re.compile(r"extra[- ]?(\d+)")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub tells of an actor. ``ended``: why, if it has."""

    actor_id: str
    class_name: str = ""
    name: str = ""
    state: str = ""
    rank: Rank | None = None
    ended: str = ""

    @property
    def title(self) -> str:
        return self.name or self.class_name or "the actor"


class Asks(Protocol):
    """Runs functions of `fibernb.engine.postmortem_pdb` somewhere."""

    def start(self, function: Callable[..., Any], args: tuple[Any, ...]) -> CellHandle: ...


class Place(NamedTuple):
    """A process that may keep an error. ``who`` it is in a sentence, ``short`` at the prompt, ``written`` in a line."""

    rank: Rank
    asks: Asks
    who: str
    short: str
    written: str

    @property
    def is_actor(self) -> bool:
        return self.rank < 0


class _OnRank:
    def __init__(self, calls: PinnedCalls, rank: Rank) -> None:
        self._calls = calls
        self._rank = rank

    def start(self, function: Callable[..., Any], args: tuple[Any, ...]) -> CellHandle:
        return self._calls.start(self._calls.operation(function), [self._rank], [args])


class _InActor:
    """Its calls stand in the actor's line, behind those that it has."""

    def __init__(self, session: Session, actor: ObjectRef, rank: Rank, title: str) -> None:
        self._session = session
        self._actor = actor
        self._rank = rank
        self._title = title

    def start(self, function: Callable[..., Any], args: tuple[Any, ...]) -> CellHandle:
        title = f"{self._title}: {function.__name__} of the debugger"
        code = defined_method(title, CALL, "")
        self._session.define(code)
        packed, _ = serialize.pack_call((function, *args), {}, ObjectRef, self._session.store)
        group = ActorGroup(code.digest, TaskOptions(name=title, max_retries=0), None, self._actor.id)
        refs = self._session.submit_call(self._actor, group, packed, ())
        assert isinstance(refs, list)
        return CellHandle(self._session, [self._rank], refs)


def on_rank(calls: PinnedCalls, rank: Rank) -> Place:
    """The engine of a seat."""
    return Place(rank, _OnRank(calls, rank), f"rank {rank}", str(rank), str(rank))


def in_actor(session: Session, row: Row) -> Place:
    """The process of an actor that has one."""
    assert row.rank is not None
    asks = _InActor(session, session.borrow(int(row.actor_id, 16)), row.rank, row.title)
    return Place(row.rank, asks, f"{row.title} ({rank_name(row.rank)})", row.title, rank_name(row.rank))


def actors(session: Session) -> list[Row]:
    """The actors that there are, then the latest of those that are no more."""
    return ask(session, "all actors", Row, LIMIT)[0]


def named(rows: Sequence[Row], text: str, names: Mapping[str, Any]) -> list[Row]:
    """The actors that people mean by a variable with a handle, by a name, by a class, or by ``extra 2``."""
    found = EXTRA.fullmatch(text)
    if found is not None:
        return [row for row in rows if row.rank == -int(found[1])]
    handle = names.get(text)
    if isinstance(handle, ActorHandle):
        return [row for row in rows if int(row.actor_id, 16) == handle._actor_ref.id]
    return [row for row in rows if row.name == text] or [row for row in rows if row.class_name == text]


def with_errors(session: Session, rows: Sequence[Row]) -> Iterator[Row]:
    """Those that live, and of whose calls one has failed or was stopped, as far as the hub remembers."""
    failed = _failed(session) if rows else set()
    return (row for row in rows if row.rank is not None and int(row.actor_id, 16) in failed)


def _failed(session: Session) -> set[ObjectId]:
    found: set[ObjectId] = set()
    for state in ("FAILED", "CANCELLED"):
        rows, _ = session.state("tasks", LIMIT, {"state": state})
        found.update(int(row["actor_id"], 16) for row in rows if row.get("actor_id"))
    return found
