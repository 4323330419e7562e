"""The session that this process uses when none is named."""

from __future__ import annotations

from collections.abc import Callable

from fibernb.client.session import Session

session: Session | None = None
starter: Callable[[], Session] | None = None  # set by fibernb.client.api: connects or starts a cluster


def use(new: Session | None) -> None:
    """Make a session the one that is used from now on."""
    global session
    session = new


def require() -> Session:
    """The session, started if there is none."""
    if session is not None and session.over is None and not session.foreign:
        return session
    assert starter is not None
    return starter()
