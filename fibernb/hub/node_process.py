"""The node process as the hub sees it from outside: started, ended, waited for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Final, Protocol

from fibernb.hub.connection import is_fibernb_process

POLL_S: Final = 0.005
KILL_TIMEOUT_S: Final = 5.0  # a process that is killed may first have to come back from the disk


class NodeProcess(Protocol):
    """What the driver needs of it; tests have a fake one."""

    @property
    def pid(self) -> int:
        """0 when there is none."""

    def start(self) -> None:
        """Start a new one. Raises `OSError` when the system does not let us."""

    def ended(self) -> str | None:
        """How the process ended ("exited with code 1"), or None while it lives."""

    def ended_within(self, timeout_s: float) -> str | None:
        """As `ended`, after waiting for it."""

    def kill(self) -> None:
        """End it now (SIGKILL), if it lives. Its engines die with it, by their parent-death signal."""


class LocalNode:
    """The node process on this host: our child or, after a restart of the hub, an orphan.

    Parameters
    ----------
    spawn : starts one and returns its pid.
    pid : of the one that lives already, 0 for none.
    ours : whether that one is our child.
    """

    def __init__(self, spawn: Callable[[], int], pid: int = 0, ours: bool = True) -> None:
        self._spawn = spawn
        self._pid = pid
        self._ours = ours
        self._end: str | None = None if pid else "was not started"

    @property
    def pid(self) -> int:
        return self._pid

    def start(self) -> None:
        self._pid = self._spawn()
        self._ours = True
        self._end = None

    def ended(self) -> str | None:
        if self._end is None:
            self._end = self._reaped() if self._ours else self._vanished()
        return self._end

    def ended_within(self, timeout_s: float) -> str | None:
        end = time.monotonic() + timeout_s
        while self.ended() is None and time.monotonic() < end:
            time.sleep(POLL_S)
        return self._end

    def kill(self) -> None:
        if self.ended() is None:
            os.kill(self._pid, signal.SIGKILL)
            self.ended_within(KILL_TIMEOUT_S)

    def _reaped(self) -> str | None:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        return f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"

    def _vanished(self) -> str | None:
        return None if is_fibernb_process(self._pid) else "ended"
