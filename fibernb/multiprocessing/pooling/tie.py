"""The tie of a pool to its cluster: its workers live there, and its size may follow the cluster's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fibernb.client import current
from fibernb.client.session import Session
from fibernb.core.messages import SeatsChanged
from fibernb.errors import NotConnected
from fibernb.multiprocessing.context import ClusterContext


class Tie:
    """To the cluster that this process uses when the pool is made.

    Parameters
    ----------
    context : makes the processes; another than one of this package has no cluster.
    """

    def __init__(self, context: Any) -> None:
        self._session: Session | None = current.require() if isinstance(context, ClusterContext) else None
        self._resize: Callable[[int], object] | None = None

    def check(self) -> None:
        """Raise `NotConnected` when the cluster has ended: a worker must not start another by accident."""
        session = self._session
        if session is not None and (session.over is not None or current.session is not session):
            raise NotConnected(f"cluster {session.name}, where the pool was made, is not used any more: make another")

    def follow(self, resize: Callable[[int], object]) -> None:
        """Tell of changes of the number of seats."""
        if self._session is not None:
            self._resize = resize
            self._session.inbox.on_seats.append(self._take)

    def unfollow(self) -> None:
        """Do not tell any more."""
        if self._session is not None and self._resize is not None:
            self._resize = None
            self._session.inbox.on_seats.remove(self._take)

    def _take(self, seats: SeatsChanged) -> None:
        if self._resize is not None:
            self._resize(max(1, seats.seats))
