"""Whether a node runs out of memory, seen before the kernel acts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from fibernb.core.events import EngineMemory, LiveEngine
from fibernb.store.memory import Account, accounts, tightest
from fibernb.wire.handshake import MemoryShort

LOOK_S: Final = 1.0  # between two looks,
CLOSE_LOOK_S: Final = 0.25  # and when the limit is near
NEAR: Final = 0.8  # of the limit
REPORT_S: Final = 1.0  # from one report to the next: what is killed needs a moment to go


class MemoryWatch:
    """Looks at the accounts of the host and of its control groups.

    Parameters
    ----------
    fraction : of an account, above which it is short; 1 and more turn the watch off.
    read : the accounts.
    memory_of : what a process has for itself, in bytes.
    """

    def __init__(
        self,
        fraction: float,
        read: Callable[[], list[Account]] = accounts,
        memory_of: Callable[[int], int] | None = None,
    ) -> None:
        self._fraction = fraction
        self._read = read
        self._memory_of = memory_of or private_bytes
        self._due = 0.0
        self._quiet_until = 0.0

    @property
    def is_on(self) -> bool:
        return self._fraction < 1

    def left_s(self, now: float) -> float:
        """Until the next look is due."""
        return max(self._due - now, 0.0)

    def look(self, engines: Iterable[LiveEngine], now: float) -> MemoryShort | None:
        """What to tell the hub, if anything is; nothing when no look is due."""
        if not self.is_on or now < self._due:
            return None
        account = tightest(self._read())
        fraction = account.fraction if account is not None else 0.0
        self._due = now + (CLOSE_LOOK_S if fraction > self._fraction * NEAR else LOOK_S)
        if account is None or fraction <= self._fraction or now < self._quiet_until:
            return None
        self._quiet_until = now + REPORT_S
        return MemoryShort(
            used_bytes=account.used_bytes,
            limit_bytes=account.limit_bytes,
            engines=[EngineMemory(engine=one.engine, used_bytes=self._memory_of(one.pid)) for one in engines],
        )


def private_bytes(pid: int) -> int:
    """The resident memory of a process without files and shared memory, which would not be free after its end."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0  # it has just ended
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGESIZE")
