"""The engines of a node, as its child processes."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from fibernb.core.events import LiveEngine
from fibernb.engine import system
from fibernb.engine.deaths import Logs, evidence, last_output, open_logs
from fibernb.engine.groups import Groups
from fibernb.engine.process import Prepared, become_engine
from fibernb.errors import BackendError
from fibernb.model import EngineId
from fibernb.wire.handshake import ProcessExited, Seat

REMEMBERED: Final = 4096


class ForkRefused(BackendError):
    """An engine cannot be started; the message says why, such as which limit was hit."""


class _Child:
    __slots__ = ("killed", "logs", "pid", "seat")

    def __init__(self, seat: Seat, pid: int, logs: Logs) -> None:
        self.seat = seat
        self.pid = pid
        self.logs = logs
        self.killed = False


class Children:
    """Forks engines, kills them, and learns of their ends. Nobody else does: so no pid is used after it was reaped."""

    def __init__(self, directory: Path, prepared: Prepared) -> None:
        self._directory = directory
        self._prepared = prepared
        self._by_pid: dict[int, _Child] = {}
        self._by_engine: dict[EngineId, _Child] = {}
        self._oom_kills = system.out_of_memory_kills()
        self._ended: OrderedDict[EngineId, int] = OrderedDict()
        self.groups = Groups()

    def fork(self, seat: Seat, node_fds: list[int]) -> None:
        """Start an engine. Raises `ForkRefused`."""
        if seat.engine in self._by_engine:
            return  # asked for twice, across a break of the link
        if not self._directory.is_dir():
            raise ForkRefused(f"{self._directory} has been removed, so no engine finds its hub: start a new cluster")
        logs = open_logs(self._directory, seat.rank)
        _reseed()
        try:
            pid = os.fork()
        except OSError as error:
            raise ForkRefused(_why(error, len(self._by_pid))) from error
        if pid == 0:
            become_engine(self._prepared, seat, logs.paths, node_fds)
        self._by_pid[pid] = self._by_engine[seat.engine] = _Child(seat, pid, logs)

    @property
    def are_there(self) -> bool:
        return bool(self._by_pid)

    def living(self) -> list[LiveEngine]:
        """The engines that have not ended as far as is known."""
        return [
            LiveEngine(engine=child.seat.engine, rank=child.seat.rank, pid=child.pid) for child in self._by_pid.values()
        ]

    @property
    def ended(self) -> dict[EngineId, int]:
        """The exit codes of the last `REMEMBERED` engines that have ended."""
        return dict(self._ended)

    def kill(self, engines: Iterable[EngineId]) -> None:
        """End these engines at once; the processes that they have started are asked to when they have ended."""
        for engine in engines:
            child = self._by_engine.get(engine)
            if child is not None:
                child.killed = True
                os.kill(child.pid, signal.SIGKILL)

    def signal(self, engine: EngineId, number: int) -> None:
        """Send a signal to this engine, if it has not ended."""
        child = self._by_engine.get(engine)
        if child is not None:
            os.kill(child.pid, number)

    def end_all(self) -> None:
        """End every engine and what they have started, and wait until all have."""
        self.kill(list(self._by_engine))
        for pid in self._by_pid:
            os.waitpid(pid, 0)
        self.groups.end_all(self._by_pid)
        self._by_pid.clear()
        self._by_engine.clear()

    def reap(self, stranger_ended: Callable[[int, int], object]) -> list[ProcessExited]:
        """The engines that have ended since the last time.

        Parameters
        ----------
        stranger_ended : told the pid and the exit code of children that are no engines.
        """
        exits: list[ProcessExited] = []
        while True:
            ended = _next_ended()
            if ended is None:
                break
            _, status, usage = os.wait4(ended.si_pid, 0)
            self.groups.end(ended.si_pid, time.monotonic())
            child = self._by_pid.pop(ended.si_pid, None)
            if child is None:
                stranger_ended(ended.si_pid, os.waitstatus_to_exitcode(status))
                continue
            del self._by_engine[child.seat.engine]
            exits.append(self._exited(child, os.waitstatus_to_exitcode(status), usage))
            self._remember(exits[-1])
        return exits

    def _remember(self, exited: ProcessExited) -> None:
        """A hub that is killed now may not hear of it, and the next one has to."""
        self._ended[exited.engine] = exited.exit_code
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    def _exited(self, child: _Child, exit_code: int, usage: resource.struct_rusage) -> ProcessExited:
        oom_kills = system.out_of_memory_kills() if exit_code == -signal.SIGKILL and not child.killed else 0
        new_kills, self._oom_kills = max(0, oom_kills - self._oom_kills), max(self._oom_kills, oom_kills)
        return ProcessExited(
            engine=child.seat.engine,
            rank=child.seat.rank,
            exit_code=exit_code,
            last_output=last_output(child.logs),
            evidence=evidence(exit_code, usage, child.killed, new_kills),
        )


def _next_ended() -> os.waitid_result | None:
    """A child that has ended and has not been waited for."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None


def _reseed() -> None:
    """Else all engines would draw the same numbers. In the node, so that numpy's memory stays shared.

    `random` sees to it by itself.
    """
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _why(error: OSError, living: int) -> str:
    wanted = {errno.EAGAIN: "processes", errno.ENOMEM: "memory"}.get(error.errno or 0, "resources")
    limits = system.fork_limits()
    text = f"the system gives no {wanted} for another engine beside {living} ({error.strerror})"
    return f"{text}; limits: {limits}" if limits else text
