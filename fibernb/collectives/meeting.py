"""How the members of a ring on one host find each other.

Every member listens at a socket in the cluster's private directory, dials the member after it, and takes the call of
the one before it; then the socket files go. The name of a socket follows from the *token* of the ring, which is new for
every ring, and the position of the member.

This is the one place that takes all members to be on the same host.
"""

from __future__ import annotations

import base64
import hashlib
import os
import select
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from fibernb.collectives.board import DIED, Board, Cause, MemberLost
from fibernb.collectives.lanes import Inlet, Outlet, slots_file
from fibernb.model import Struct
from fibernb.transport import socket_file

HELLO: Final = b"fibernb ring"
FIRST_PAUSE_S: Final = 0.001
LONGEST_PAUSE_S: Final = 0.05
BOARD_SUFFIX: Final = ".ring"


class Place(Struct, frozen=True, kw_only=True):
    """Where one member stands.

    ``directory`` is the cluster's, ``token`` names the ring, ``names`` are the ranks of all members by position.
    """

    directory: str
    token: str
    position: int
    names: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.names)


def board_path(directory: str | Path, token: str) -> Path:
    """The file that the members, and who started them, share."""
    return Path(directory, f"{token}{BOARD_SUFFIX}")


def socket_path(directory: str | Path, token: str, position: int) -> Path:
    """Where a member listens: as long as the names of the cluster's other sockets, whose length has been checked."""
    digest = hashlib.blake2b(f"{token}.{position}".encode(), digest_size=5).digest()
    return Path(directory, f"r{base64.b32encode(digest).decode().lower()}")


class Lanes:
    """The lanes from the member before this one and to the one after it, as far as they are there."""

    def __init__(self) -> None:
        self.inlet: Inlet | None = None
        self.outlet: Outlet | None = None

    def close(self) -> None:
        for lane in (self.inlet, self.outlet):
            if lane is not None:
                lane.close()


def meet(place: Place, board: Board, lanes: Lanes) -> tuple[Inlet, Outlet]:
    """Open both lanes, and wait until they are there. Raises `MemberLost` when that will not be.

    A lane that is there already stays open then: who closes it has to say first why, since that is seen.
    """
    path = socket_path(place.directory, place.token, place.position)
    with ExitStack() as temporary:
        listener = temporary.enter_context(_listener(path))
        temporary.callback(path.unlink, missing_ok=True)
        pause_s = FIRST_PAUSE_S
        while True:
            lost = board.lost(1)
            lanes.outlet = lanes.outlet or _dialled(place)
            lanes.inlet = lanes.inlet or _called(place, listener)
            if lanes.inlet is not None and lanes.outlet is not None:
                return lanes.inlet, lanes.outlet
            if lost is not None:
                raise MemberLost(lost)
            _wait(listener if lanes.inlet is None else None, pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _listener(path: Path) -> socket.socket:
    socket_file.check_length(str(path))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(1)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _dialled(place: Place) -> Outlet | None:
    """The lane to the next member, if that listens already."""
    path = socket_path(place.directory, place.token, (place.position + 1) % place.size)
    try:
        connection = socket_file.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
        return None
    descriptor = slots_file()
    try:
        socket.send_fds(connection, [HELLO], [descriptor])
        return Outlet(connection, descriptor)
    except ConnectionError:
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(descriptor)


def _called(place: Place, listener: socket.socket) -> Inlet | None:
    """The lane from the member before, if that has dialled."""
    try:
        connection, _ = listener.accept()
    except BlockingIOError:
        return None
    descriptors: list[int] = []
    try:
        connection.setblocking(True)
        hello, descriptors, _, _ = socket.recv_fds(connection, len(HELLO), 1)
        if hello != HELLO or not descriptors:
            raise MemberLost(Cause((place.position - 1) % place.size, DIED))
        return Inlet(connection, descriptors[0])
    except BaseException:
        connection.close()
        raise
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _wait(listener: socket.socket | None, pause_s: float) -> None:
    """Until the member before calls, or a moment."""
    poller = select.poll()
    if listener is not None:
        poller.register(listener, select.POLLIN)
    poller.poll(pause_s * 1000)
