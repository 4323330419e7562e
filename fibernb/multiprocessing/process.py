"""Processes: the library's, each of which is an engine of its own on the cluster."""

from __future__ import annotations

from multiprocessing import process
from typing import Any, Final

from fibernb.multiprocessing.popen import Popen

START_METHODS: Final = ("spawn", "fork", "forkserver")  # the default first; they all do the same here


class ClusterProcess(process.BaseProcess):
    """A process on the cluster, as ``multiprocessing.Process`` describes it.

    ``start`` does not wait for its engine; ``pid`` does. What it is given, and the functions and classes of the main
    module, travel by value.
    """

    tells_problem: bool = True  # that it could not be started is written to stderr
    _start_method: str | None = None
    _popen: Popen | None

    @staticmethod
    def _Popen(process_obj: process.BaseProcess) -> Popen:  # noqa: N802  the library's name
        return Popen(process_obj)

    @staticmethod
    def _after_fork() -> None:
        """Nothing of the parent's is here that would have to be put right."""

    @property
    def sentinel(self) -> int:
        """A descriptor that is ready for reading once the process has ended."""
        self._check_closed()
        if self._popen is None:
            raise ValueError("process not started")
        return self._popen.ready_at_end()

    @property
    def problem(self) -> BaseException | None:
        """Why it could not be started, once it has ended for that reason."""
        return None if self._popen is None or self._popen.poll() is None else self._popen.problem

    def _check_closed(self) -> None:
        check: Any = super()
        check._check_closed()


def __getattr__(name: str) -> Any:
    """Everything else of this module is the library's: who the current process is, and which children it has."""
    return getattr(process, name)


class SpawnProcess(ClusterProcess):
    _start_method = "spawn"


class ForkProcess(ClusterProcess):
    _start_method = "fork"


class ForkServerProcess(ClusterProcess):
    _start_method = "forkserver"


class Process(ClusterProcess):
    """The process class of the default context."""
