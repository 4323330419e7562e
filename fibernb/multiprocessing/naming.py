"""The names that this process gives to semaphores, and how long they stay.

A name stays while the object that it was given for does. When that was sent somewhere (it may be on its way still), a
minute longer: by then whoever got it has given it a name of its own. What a process leaves behind that was killed, the
node takes away.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections import deque
from multiprocessing import process
from typing import Final

from fibernb.engine import context
from fibernb.model import rank_name
from fibernb.multiprocessing.places import Place, cluster_prefix, home, key_at, place_of
from fibernb.store.holders import introduce, owner_of_engine, owner_of_process, token_of
from fibernb.store.names import are_shown, link_semaphore, unlink_semaphore

KIND: Final = "lock or semaphore"
ON_ITS_WAY_S: Final = 60.0

_dropped: Final[deque[tuple[float, str]]] = deque()  # until when, and what
_introduced: tuple[str, str, str] = ("", "", "")


class Name:
    """A name that this process has given, or uses (``is_own`` False)."""

    __slots__ = ("_pid", "is_sent", "text")

    def __init__(self, text: str, is_own: bool = True) -> None:
        self.text = text
        self.is_sent = False
        self._pid = os.getpid() if is_own else 0

    def drop(self) -> None:
        """The object is gone. In a process that did not give the name, nothing happens."""
        if os.getpid() != self._pid:
            return
        if self.is_sent:
            _dropped.append((time.monotonic() + ON_ITS_WAY_S, self.text))
        else:
            unlink_semaphore(self.text)

    def place(self) -> Place:
        """Where others find what the name was given to. From now on it may be on its way to them."""
        self.is_sent = True
        return place_of(KIND, self.text)


def adopt(place: Place) -> Name:
    """A name of this process's own for a semaphore that has come here.

    Raises `FileNotFoundError` when nobody has it any more, `ClusterError` when it is on another host.
    """
    theirs = str(key_at(place))
    if not are_shown():
        return Name(theirs, is_own=False)
    name = new_name()
    if link_semaphore(theirs, name.text):
        return name
    raise FileNotFoundError(errno.ENOENT, f"this {KIND} has gone, with the process or the cluster that had it", theirs)


def new_name() -> Name:
    """A name for a semaphore that nobody has given yet. Starts a cluster if there is none."""
    _unlink_dropped(time.monotonic())
    introduce_self(takes_locks=False)
    return Name(f"/{cluster_prefix()}{owner()}-{secrets.token_hex(6)}")


def owner() -> str:
    """How this process is called in names. What an engine forks ends with it, and so goes by its name."""
    engine = context.current()
    return owner_of_process(os.getpid()) if engine is None else owner_of_engine(engine.engine)


def token() -> int:
    """How this process is written into the pages of locks."""
    return token_of(owner())


def introduce_self(*, takes_locks: bool) -> None:
    """Tell the node that this process gives names or even takes locks, and then what people call it."""
    global _introduced
    directory, name = str(home()), owner()
    if not takes_locks and _introduced[:2] == (directory, name):
        return
    told = (directory, name, f"{_display_name()} (pid {os.getpid()})" if takes_locks else "")
    if told != _introduced:
        introduce(*told)
        _introduced = told


def _display_name() -> str:
    engine, name = context.current(), process.current_process().name
    return rank_name(engine.rank) if engine is not None and name == "MainProcess" else name


def _unlink_dropped(now: float) -> None:
    while _dropped and _dropped[0][0] <= now:
        try:
            _, name = _dropped.popleft()
        except IndexError:  # another thread was here first
            return
        unlink_semaphore(name)
