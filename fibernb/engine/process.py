"""From a fork of the node to a running engine."""

from __future__ import annotations

import atexit
import os
import platform
import signal
import sys
from multiprocessing import util
from typing import Any, NamedTuple, NoReturn

from fibernb.engine import system
from fibernb.engine.cells import Cells
from fibernb.engine.context import EngineContext, enter
from fibernb.engine.engine import Engine
from fibernb.engine.shell import EngineShell
from fibernb.engine.siding import CRASHED_EXIT_CODE, crash
from fibernb.engine.streams import APPEND, TaskStream, adopt_threads
from fibernb.model import Struct, rank_name
from fibernb.progress import report_bars_to
from fibernb.store.agent import StoreAgent, agent_for
from fibernb.wire.handshake import Seat


class EngineSettings(Struct, frozen=True, kw_only=True):
    """What all engines of a node have in common."""

    directory: str  # of the cluster
    address: str  # of the hub
    key: str
    inline_bytes: int = 100_000  # values with larger buffers go into the object store


class Prepared(NamedTuple):
    """Everything of an engine that can be made before it is forked, and so be shared by all."""

    engine: Engine
    context: EngineContext
    streams: tuple[TaskStream, TaskStream]  # sys.stdout, sys.stderr
    node_pid: int
    settings: EngineSettings


def prepare(settings: EngineSettings, shell: EngineShell) -> Prepared:
    """Called once, by the node. From now on the node ignores SIGINT, as an engine does while no task runs."""
    engine = Engine(address=settings.address, key=settings.key)
    engine.interrupts.install()
    shell.interrupts = lambda: engine.interrupts.strikes
    publisher: Any = shell.display_pub
    publisher.report = engine.reporter.display
    context = EngineContext(directory=settings.directory, cells=Cells(shell), current_task=engine.current_task)
    context.node = platform.node()
    engine.enter(context)
    return Prepared(
        engine=engine,
        context=context,
        streams=(
            TaskStream("stdout", 1, engine.reporter, engine.log),
            TaskStream("stderr", 2, engine.reporter, engine.log),
        ),
        node_pid=os.getpid(),
        settings=settings,
    )


def become_engine(prepared: Prepared, seat: Seat, logs: tuple[str, str], node_fds: list[int]) -> NoReturn:
    """Called in a process that the node has just forked; ends with the process.

    What runs here touches memory that was shared with the node until then, in every engine: so it does no more than it
    must before there is work.

    Parameters
    ----------
    logs : paths of the log of Python code and of that of native code.
    node_fds : descriptors of the node that this process must not touch.
    """
    exit_code = CRASHED_EXIT_CODE
    try:
        _detach(prepared.node_pid, seat, logs[1], node_fds)
        _take_seat(prepared, seat, logs)
        store = _store(prepared.settings, seat)
        prepared.context.names_from = store.private
        exit_code = prepared.engine.run(seat, store)
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001  the last chance to say why
        crash()
    finally:
        os._exit(exit_code)


def _detach(node_pid: int, seat: Seat, native_log: str, node_fds: list[int]) -> None:
    """Leave everything behind that is the node's."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # what a task forks might miss it with a handler
    os.setpgid(0, 0)  # so that the node can end what this engine starts along with it
    system.die_with_parent(node_pid)
    system.set_process_name(f"fibernb-r{seat.rank}" if seat.rank >= 0 else f"fibernb-x{-seat.rank}")
    atexit._clear()
    atexit.register(util._exit_function)  # type: ignore[attr-defined]  # the library's, which the node's import has made
    _redirect(native_log, node_fds)


def _take_seat(prepared: Prepared, seat: Seat, logs: tuple[str, str]) -> None:
    prepared.engine.log.open(logs[0])
    prepared.engine.native.open(logs[1])
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = prepared.streams  # type: ignore[misc,assignment]  # for who redirects
    adopt_threads(prepared.engine.reporter)
    os.register_at_fork(after_in_child=prepared.engine.disown)
    report_bars_to(prepared.engine.reporter.add_bar)
    prepared.context.rank, prepared.context.engine = seat.rank, seat.engine
    enter(prepared.context)


def _store(settings: EngineSettings, seat: Seat) -> StoreAgent:
    """The object store of this host, which is not asked for anything yet."""
    return agent_for(settings.directory, settings.key, rank_name(seat.rank), settings.inline_bytes)


def _redirect(native_log: str, node_fds: list[int]) -> None:
    """Descriptors 1 and 2 to the log. The node's own are covered rather than closed: Python objects know them still."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in (0, *node_fds):
        os.dup2(nothing, fd, inheritable=fd == 0)
    try:
        target = os.open(native_log, APPEND, 0o600)
    except OSError:
        target = os.dup(nothing)  # a full disk is no reason not to run
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    os.close(nothing)
