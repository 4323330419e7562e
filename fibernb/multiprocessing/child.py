"""The child's side of a process: the actor that it is on its engine."""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from multiprocessing import util
from typing import Any, Final, NoReturn

from fibernb.engine import context
from fibernb.engine.actors import ProcessExit
from fibernb.errors import ClusterError
from fibernb.model import EngineId
from fibernb.multiprocessing import reduction
from fibernb.multiprocessing.preparation import Preparation, prepare

FAILED_EXIT_CODE: Final = 1
EXIT_CODE_MASK: Final = 0xFF  # what of an exit code reaches others


class ProcessHost:
    """The actor that an engine has for a process; its parent calls `where`, then `live`."""

    def where(self) -> tuple[int, EngineId]:
        """The number of this process on its host, and that of its engine."""
        return os.getpid(), _engine().engine

    def live(self, given: Preparation, pickled: bytes) -> NoReturn:
        """Be the process, and end with its exit code."""
        engine, pid = _engine(), os.getpid()
        code = FAILED_EXIT_CODE
        try:
            prepare(given, engine)
            code = _run(reduction.loads(pickled), given.parent_pid)
        except BaseException:  # noqa: BLE001  as an interpreter that cannot begin
            traceback.print_exc()
        if os.getpid() != pid:  # forked in there, and come all the way out: the engine is its parent's
            os._exit(code & EXIT_CODE_MASK)
        _clean_up()
        raise ProcessExit(code & EXIT_CODE_MASK)


def _engine() -> context.EngineContext:
    engine = context.current()
    if engine is None:
        raise ClusterError("a process lives in an engine, and this is none")
    return engine


def _run(child: Any, parent_pid: int) -> int:
    code: int = child._bootstrap(_descriptor_of(parent_pid))
    return code


def _descriptor_of(pid: int) -> int:
    """A descriptor that is ready for reading once that process has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        ended, writing = os.pipe()
        os.close(writing)
        return ended


def _clean_up() -> None:
    """What an interpreter does last. Whatever of it fails is told, and the exit code stays."""
    library: Any = util
    for step in (library._exit_function, atexit._run_exitfuncs, library._flush_std_streams):
        try:
            step()
        except BaseException:  # noqa: BLE001  such as an exit from a finalizer
            traceback.print_exc(file=sys.stderr)
