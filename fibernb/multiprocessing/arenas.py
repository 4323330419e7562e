"""Memory that processes of a host share without a name, and can send each other.

A process that has got such memory from another marks the parts of it that it uses, by locks of the system's on the
memory's file: they go with the process, however it ends. So the owner can tell which parts nobody uses any more.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import struct
import tempfile
import weakref
from typing import Any, Final

from fibernb.errors import ClusterError
from fibernb.multiprocessing.descriptors import Ticket, deposit, redeem

CAN_MARK: Final = hasattr(fcntl, "F_OFD_SETLK") and os.path.isdir("/proc/self/fd")
FLOCK: Final = "hhqqi4x"  # the system's struct flock: type, whence, start, length, pid

_known: Final[weakref.WeakValueDictionary[str, Arena]] = weakref.WeakValueDictionary()


class Arena:
    """A piece of shared memory.

    Parameters
    ----------
    size : bytes.
    descriptor : of memory that has come from another process; None: new memory, all zeros.
    identity : of that memory.
    """

    def __init__(self, size: int, descriptor: int | None = None, identity: str = "") -> None:
        self.size = size
        self.identity = identity or secrets.token_hex(8)
        self._descriptor = _new_memory(size) if descriptor is None else descriptor
        weakref.finalize(self, os.close, self._descriptor)
        self.buffer = mmap.mmap(self._descriptor, size)
        self._ticket: Ticket | None = None
        _known[self.identity] = self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._ticket is None or not _is_good(self._ticket):
            self._ticket = deposit(self._descriptor, lasting=True)
        return _received, (self.identity, self.size, self._ticket)

    def mark(self, start: int) -> None:
        """This process uses the part that begins there, until `unmark` or its end."""
        if CAN_MARK:
            self._lock(fcntl.F_OFD_SETLK, fcntl.F_RDLCK, start)

    def unmark(self, start: int) -> None:
        """This process does not use that part any more."""
        if CAN_MARK:
            self._lock(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, start)

    def is_marked(self, start: int) -> bool:
        """Whether any other process uses that part; True when it cannot be told."""
        return not CAN_MARK or self._lock(fcntl.F_OFD_GETLK, fcntl.F_WRLCK, start) != fcntl.F_UNLCK

    def _lock(self, command: int, type_: int, start: int) -> int:
        answer = fcntl.fcntl(self._descriptor, command, struct.pack(FLOCK, type_, os.SEEK_SET, start, 1, 0))
        found: int = struct.unpack(FLOCK, answer)[0]
        return found


def _received(identity: str, size: int, ticket: Ticket) -> Arena:
    """Called while unpickling."""
    known = _known.get(identity)
    return Arena(size, _opened(redeem(ticket)), identity) if known is None else known


def _is_good(ticket: Ticket) -> bool:
    """Whether it can be redeemed: its store may have ended since, alone or with its cluster."""
    try:
        os.close(redeem(ticket))
    except ClusterError:
        return False
    return True


def _opened(descriptor: int) -> int:
    """The same memory, opened anew: marks belong to what was opened, which processes share that pass it on."""
    if not CAN_MARK:
        return descriptor
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
    finally:
        os.close(descriptor)


def _new_memory(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fibernb-arena", os.MFD_CLOEXEC)
    else:
        descriptor, path = tempfile.mkstemp(prefix="fibernb-arena")
        os.unlink(path)
    os.ftruncate(descriptor, size)
    return descriptor
