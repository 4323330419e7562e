"""How much memory a cluster on this host takes."""

from __future__ import annotations

from collections.abc import Iterable

import psutil

from fibernb.core.messages import Status

MOST_ENGINES = 64
"""Looking at a process takes a tenth of a millisecond: with more engines, the sum is estimated from these."""


def memory_of(status: Status, beside: Iterable[int] = ()) -> int | None:
    """Bytes of private memory of hub and engines together; None when they are not of this host.

    ``beside``: numbers of the processes of engines beside the seats.
    """
    pids = [*beside, *(seat.pid for seat in status.engines if seat.pid)]
    sample = [_private_bytes(pid) for pid in pids[:MOST_ENGINES]]
    hub = _private_bytes(status.pid)
    if hub is None or (pids and not any(sample)):
        return None
    known = [amount for amount in sample if amount is not None]
    engines = sum(known) * len(pids) // len(known) if known else 0
    return hub + engines


def _private_bytes(pid: int) -> int | None:
    try:
        memory = psutil.Process(pid).memory_info()
    except (psutil.Error, ValueError):
        return None
    return max(0, int(memory.rss) - int(getattr(memory, "shared", 0)))
