"""Waits for seats: until as many as wanted have an engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from fibernb.client import options
from fibernb.client.session import Session
from fibernb.core.messages import Scale, SeatsChanged, Status
from fibernb.errors import ClusterError, ScaleTimeout

LOOK_S: Final = 1.0  # how long to rely on being told before asking


def scale(
    session: Session,
    seats: int,
    *,
    wait: bool = True,
    minimum: int | None = None,
    timeout_s: float | None = None,
    on_change: Callable[[SeatsChanged], object] | None = None,
) -> None:
    """Declare the number of seats and wait until enough of them are ready.

    Parameters
    ----------
    minimum : how many must be ready before this returns; None: all.
    timeout_s : raises `ScaleTimeout` after so many seconds; None waits for ever.
    on_change : told whenever the number of seats that are ready changes.
    """
    _check(session, seats, minimum)
    if on_change is not None:
        session.inbox.on_seats.append(on_change)
    try:
        session.tell(Scale(seats=seats))
        state = session.status()
        if wait:
            _wait_ready(session, state, seats if minimum is None else min(minimum, seats), timeout_s)
    finally:
        if on_change is not None:
            session.inbox.on_seats.remove(on_change)


def _check(session: Session, seats: int, minimum: int | None) -> None:
    options.whole("seats", seats)
    options.whole("minimum", 0 if minimum is None else minimum)
    check_limit(session, seats)


def check_limit(session: Session, seats: int) -> None:
    """Raise `ClusterError` for more seats than the cluster can have."""
    welcome = session.welcome
    if seats > welcome.max_seats:
        raise ClusterError(
            f"{seats} seats are more than the {welcome.max_seats} that cluster {session.name} can have: {welcome.limit}"
        )


def _wait_ready(session: Session, state: SeatsChanged | Status, enough: int, timeout_s: float | None) -> None:
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while state.ready < enough:
        if deadline is not None and time.monotonic() > deadline:
            raise ScaleTimeout(f"{state.ready} of {enough} seats were ready after {timeout_s:g} s{_reason(session)}")
        told = session.seats
        pause = LOOK_S if deadline is None else min(LOOK_S, max(0.0, deadline - time.monotonic()))
        if session.wait(lambda told=told: session.seats is not told, pause):  # type: ignore[misc]
            state = session.seats or state
        else:
            state = session.status()


def _reason(session: Session) -> str:
    told = session.seats
    return f": {told.problem}" if told is not None and told.problem else "; the others go on starting"
