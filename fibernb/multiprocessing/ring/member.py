"""A member of a ring: what runs in its process, and what it can do there."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final

from fibernb import serialize
from fibernb.collectives import calls
from fibernb.collectives.circle import Circle
from fibernb.collectives.group import Group
from fibernb.collectives.meeting import Place
from fibernb.errors import ClusterError, RingBroken
from fibernb.multiprocessing.ring import talk
from fibernb.multiprocessing.ring.talk import Done, Failed, Position, Rebuild, Refused, RingNode, Word

HERE: Final = "127.0.0.1"  # members are on one host
REBUILDS: Final = 20  # that one `rebuild` tries, while members die before the ring is closed


class RingMember(Group):
    """This process in its ring: its rank, the others, and what they do together.

    ``members`` tells where all are. ``generation`` is how many times the ring has been rebuilt; a member that was
    started in the place of a dead one begins with a generation above 0.
    """

    def __init__(self, owner: Connection[Any, Any], position: Position) -> None:
        super().__init__(position.place.names, position.place.position, None)
        self.generation = position.generation
        self.members: tuple[RingNode, ...] = ()
        self._owner = owner
        self._first = position

    def join(self) -> None:
        """Meet the others for the first time."""
        try:
            self._connect(self._first)
        except RingBroken:
            if not self.generation:
                raise
            self.rebuild()  # this one was started for that

    def rebuild(self) -> None:
        """Close the ring again after a `RingBroken`, with new processes for the members that have died.

        Those run the initializer and the function from their beginning. Every member has to call this; so agree
        afterwards on where to go on, as by an `allgather` of the step that each has reached. Members that die meanwhile
        are replaced as well. Raises `RingBroken` when a member has ended, or when too many die.
        """
        for left in reversed(range(REBUILDS)):
            self.close("has left for the rebuilt ring")
            position = self._next_position()
            try:
                self._connect(position)
            except RingBroken:
                if not left:
                    raise
            else:
                return

    def _next_position(self) -> Position:
        """In the ring that comes next. Raises `RingBroken` when there will be none."""
        self._owner.send_bytes(talk.encode(Rebuild(generation=self.generation)))
        answer = talk.to_member.decode(self._owner.recv_bytes())
        if isinstance(answer, Refused):
            raise RingBroken(answer.rank, answer.reason, "rebuild")
        return answer

    def _connect(self, position: Position) -> None:
        """Meet the others, and learn where they are."""
        self.generation = position.generation
        place = position.place
        super().__init__(place.names, place.position, _circle(place) if place.size > 1 else None)
        node = RingNode(rank=self.rank, ip=HERE, port=_free_port(), pid=os.getpid())
        self.members = tuple(self.allgather(node))


def _circle(place: Place) -> Circle:
    try:
        return Circle(place, makes_board=False)
    except FileNotFoundError:
        raise RingBroken(place.position, "has come after the ring was rebuilt without it") from None


def current_ring() -> RingMember:
    """The member that this process is. Raises `ClusterError` where it is none."""
    member = calls.ring()
    if not isinstance(member, RingMember):
        raise ClusterError("this process is no member of a ring: call it in the function of a Ring")
    return member


def live(
    owner: Connection[Any, Any],
    position: Position,
    function: Callable[[int, int], Any],
    initializer: Callable[..., Any] | None,
    initargs: Sequence[Any],
) -> None:
    """Be a member: what the process of each one runs. The end is told to the owner, whatever it is."""
    member = RingMember(owner, position)
    calls.enter_ring(member)
    try:
        word = _outcome(member, function, initializer, initargs)
    finally:
        calls.enter_ring(None)
        member.close("has ended")
    with suppress(BrokenPipeError):  # the owner has gone: nobody asks any more
        owner.send_bytes(talk.encode(word))
    if isinstance(word, Failed):
        sys.exit(1)


def _outcome(
    member: RingMember,
    function: Callable[[int, int], Any],
    initializer: Callable[..., Any] | None,
    initargs: Sequence[Any],
) -> Word:
    try:
        member.join()
        if initializer is not None:
            initializer(member, *initargs)
        return Done(value=serialize.dumps(function(member.rank, member.size), "the function's value"))
    except BaseException as error:  # noqa: BLE001  whatever the user's function raises goes to the caller of `run`
        return Failed(error=serialize.dumps_error(error, traceback.format_exc()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        port: int = probe.getsockname()[1]
        return port
