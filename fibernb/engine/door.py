"""The socket at which clients of this host send calls to the engine themselves: see `fibernb.wire.direct`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from fibernb.core.messages import Message, Run
from fibernb.errors import ProtocolError
from fibernb.model import EngineId, TaskId
from fibernb.transport import Peer, unix
from fibernb.wire import admission, codec
from fibernb.wire.direct import DOOR, DoorHello, DoorIsOpen, DoorIsShut, to_door


class Knock(NamedTuple):
    """A call that a client has sent."""

    peer: Peer
    run: Run


class Door:
    """Belongs to the main thread.

    Parameters
    ----------
    directory : of the cluster.
    key : of the cluster.
    """

    def __init__(self, directory: Path, engine: EngineId, key: str) -> None:
        path = directory / DOOR.format(engine=engine)
        self._listener = unix.listen(str(path), codec.MAX_HELLO_BYTES)
        self._key = key
        self._last: dict[Peer, TaskId] = {}  # of those that were let in: the call before this one, 0 for none

    def fileno(self) -> int:
        """A descriptor that may be read when there may be something to `take`."""
        return self._listener.fileno()

    def take(self, *, all_of_it: bool = False) -> list[Knock]:
        """Calls that have arrived. ``all_of_it``: look until there is nothing more, rather than once."""
        knocks: list[Knock] = []
        empty = not all_of_it
        while True:
            arrivals = self._listener.poll(0.0)
            for peer, data in arrivals:
                if data is None:
                    self._last.pop(peer, None)
                else:
                    self._hear(peer, data, knocks)
            if empty and not (arrivals and all_of_it):
                return knocks
            empty = not arrivals  # twice: who has just been let in may have said something already

    def follow(self, peer: Peer, task: TaskId) -> TaskId:
        """This peer goes on to that call, so it has all that it wanted of the one before, which is returned."""
        before = self._last.get(peer, 0)
        self._last[peer] = task
        return before

    def answer(self, peer: Peer, message: Message) -> None:
        self._listener.send(peer, codec.encode(message))

    def shut(self) -> None:
        """Tell all that are there that nothing more is taken, and close."""
        for peer in self._last:
            self.answer(peer, DoorIsShut())
        self._listener.close()

    def cover(self) -> None:
        """In a process that a task has forked: let go of the sockets, which are the engine's."""
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in self._listener.descriptors():
            os.dup2(nothing, fd, inheritable=False)
        os.close(nothing)

    def _hear(self, peer: Peer, data: bytes, knocks: list[Knock]) -> None:
        try:
            message = to_door.decode(data)
        except ProtocolError:
            self._drop(peer)
            return
        if peer not in self._last:
            self._let_in(peer, message)
        elif isinstance(message, Run) and len(message.calls) == 1:
            knocks.append(Knock(peer, message))
        else:
            self._drop(peer)

    def _let_in(self, peer: Peer, message: DoorHello | Run) -> None:
        if not isinstance(message, DoorHello) or admission.check(message.credentials, self._key) is not None:
            self._drop(peer)
            return
        self._last[peer] = 0
        self._listener.limit(peer, codec.MAX_MESSAGE_BYTES)
        self.answer(peer, DoorIsOpen())

    def _drop(self, peer: Peer) -> None:
        self._last.pop(peer, None)
        self._listener.drop(peer)
