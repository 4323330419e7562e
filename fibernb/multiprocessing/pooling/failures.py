"""The errors of a pool that are no user's."""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Final

from fibernb.errors import FibernbError, WorkerDied
from fibernb.multiprocessing.pooling.ledger import Failure

REPORT_S: Final = 5.0  # how long a report of how a worker ended may take


def died(process: Any, failure: Failure) -> WorkerDied:
    """The error of an item that has killed too many workers."""
    times = "once" if failure.deaths == 1 else f"{failure.deaths} times"
    evidence = f"a pool's worker died {times} while it ran item {failure.item} of a call, which is not tried again"
    return _worker_died(process, evidence)


def broken(process: Any, deaths: int) -> WorkerDied:
    """The error of everything in a pool whose workers do not come to life."""
    evidence = f"{deaths} workers of the pool in a row ended before they were ready, so it has no more"
    return _worker_died(process, evidence)


def _worker_died(process: Any, evidence: str) -> WorkerDied:
    with contextlib.suppress(FibernbError):
        process.join(REPORT_S)
    rank = -process._identity[-1]  # it stands beside the seats
    return WorkerDied(rank, socket.gethostname(), process.exitcode, evidence=f"{process.name}: {evidence}")
