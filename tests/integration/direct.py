"""For tests of calls that go past the hub."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import fibernb as fnb
from fibernb.client import current
from fibernb.client.direct import ANY_SEAT
from tests.integration.conftest import wait_until


@fnb.remote
def pid() -> int:
    return os.getpid()


def way_of(actor: Any = None) -> Any:
    """The way that calls of an actor take past the hub, or those of tasks; None if there is none."""
    session: Any = current.require()
    way = session._direct._ways.get(ANY_SEAT if actor is None else actor._actor_ref.id)
    return way if way is not None and way.opened else None


def lead(call: Callable[[], Any], actor: Any = None) -> Any:
    """Call until calls go past the hub; the last value."""
    wait_until(lambda: fnb.get(call()) and way_of(actor))
    return fnb.get(call())
