"""The session that this process uses when none is named."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final

from fibernb.client.session import Session

API: Final = "fibernb.client.api"

session: Session | None = None
starter: Callable[[], Session] | None = None  # set by `API`: connects or starts a cluster
keeps_errors = False  # set by a notebook: engines keep what tasks raise, for its debugger
on_use: Final[list[Callable[[Session | None], object]]] = []  # told of every change of the session


def use(new: Session | None) -> None:
    """Make a session the one that is used from now on."""
    global session
    session = new
    for listener in on_use:
        listener(new)


def require() -> Session:
    """The session, started if there is none."""
    if session is not None and session.over is None and not session.foreign:
        return session
    if starter is None:  # an engine that was sent a remote function, and has used nothing else yet
        importlib.import_module(API)
    assert starter is not None
    return starter()
