"""The session that this process uses when none is named."""

from __future__ import annotations

from collections.abc import Callable

from fibernb.client import refs
from fibernb.client.refs import ObjectRef
from fibernb.client.session import Session
from fibernb.errors import NotConnected
from fibernb.model import ObjectId

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


def _revive(id_: ObjectId, cluster: str) -> ObjectRef:
    found = require()
    if found.name != cluster:
        raise NotConnected(f"a reference of cluster {cluster} came to a process that uses cluster {found.name}")
    with found.books.mutex:
        return found.books.ledger.pending.get(id_) or ObjectRef(id_, found)


refs.reviver = _revive
