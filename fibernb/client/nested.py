"""Waiting inside of a task: the one that waits keeps its seat, so the tasks that it waits for need others.

A cluster whose every seat waits for tasks that have no seat would hang without a word. With one seat that is certain,
and an error; with more it is likely when nothing is free for a while, and the task says so on stderr.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from fibernb.core.messages import Status
from fibernb.errors import ClusterError

LOOK_S: Final = 1.0
PATIENCE_S: Final = 5.0  # how long nothing may be free before the task says so


def wait_in_task(
    wait: Callable[[Callable[[], bool], float | None], bool],
    status: Callable[[], Status],
    done: Callable[[], bool],
    timeout_s: float | None,
) -> bool:
    """As ``wait(done, timeout_s)``, looking now and then whether what is waited for can run at all.

    Raises `ClusterError` when it cannot: the only seat is the one that waits.
    """
    begun = time.monotonic()
    warned = False
    while True:
        left = None if timeout_s is None else timeout_s - (time.monotonic() - begun)
        if wait(done, LOOK_S if left is None else max(0.0, min(LOOK_S, left))):
            return True
        if left is not None and left <= LOOK_S:
            return False
        starved = _starved(status())
        if starved and not warned and time.monotonic() - begun > PATIENCE_S:
            warned = True
            sys.stderr.write(f"fibernb: {starved}\n")


def _starved(state: Status) -> str:
    """Why what is queued has no seat; empty when some seat may take it."""
    if not state.queued or state.ready > state.busy or state.starting or state.maximum is not None:
        return ""
    advice = "scale the cluster up, or submit from the notebook and pass references"
    if state.seats == 1:
        raise ClusterError(f"this task waits for tasks that need a seat, and it sits on the only one: {advice}")
    return (
        f"a task waits for tasks that need a seat, and all {state.seats} are taken, maybe by others that wait: {advice}"
    )
