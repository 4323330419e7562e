"""The hub as a process: set up, serve, leave nothing behind."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from fibernb import config as configuration
from fibernb import transport
from fibernb.config import Config
from fibernb.core.scheduler import Scheduler
from fibernb.core.settings import CoreSettings
from fibernb.errors import ClusterError, FibernbError
from fibernb.hub import capacity, limits, logs, place
from fibernb.hub.admission import Admission, Identity
from fibernb.hub.connection import Connection, read_connection, write_connection
from fibernb.hub.hub import Hub
from fibernb.hub.node import Host
from fibernb.hub.node_process import LocalNode
from fibernb.hub.spawn import READY, spawn_node
from fibernb.hub.store import StoreDoor
from fibernb.version import PYTHON, VERSION
from fibernb.wire.storetalk import STORE_SOCKET

logger: Final = logging.getLogger(__name__)

FAILURES_NAME: Final = "failures"  # a byte for each
MAX_FAILURES: Final = 5
ARRIVAL_S: Final = 5.0  # for who has started a hub to come, however short the lease
SETTLED_S: Final = 30.0  # a hub that has served this long has not failed for what a client sends again

SCHEMES: Final = {"unix": "unix", "zmq": "zmq+ipc"}


def serve(directory: Path, *, resume: bool, node_pid: int, lock: int | None, says: int | None) -> int:
    """Be the hub of the cluster in ``directory`` until it ends; returns the exit code of the process.

    Parameters
    ----------
    resume : take over from a hub that was killed.
    node_pid : of the node process, if it has been started already.
    lock : descriptor that holds the directory's lock, if the caller has taken it.
    says : descriptor of a pipe on which somebody waits to hear that the hub is ready.
    """
    logs.set_up(directory / place.LOG_NAME)
    try:
        hub = _set_up(directory, resume, node_pid, lock)
    except (FibernbError, OSError) as error:
        logger.error("cannot start: %s", error)
        LocalNode(lambda: 0, node_pid).kill()
        _say(says, str(error).encode())
        return 1
    _say(says, READY)
    begun = time.monotonic()
    try:
        hub.run()
    except Exception as error:
        logger.exception("the hub fails; a client may start it again")
        if not _fails_again_and_again(directory, time.monotonic() - begun):
            return 1
        hub.stop(f"the hub fails again and again, the last time with {error!r}: leave out the work that does it")
    try:
        hub.end()
    finally:
        place.remove(directory)
    return 0


def _fails_again_and_again(directory: Path, served_s: float) -> bool:
    """Whether hubs of this cluster have failed `MAX_FAILURES` times in a row, each soon after its start."""
    path = directory / FAILURES_NAME
    try:
        with open(path, "ab" if served_s < SETTLED_S else "wb") as file:
            file.write(b".")
        return path.stat().st_size >= MAX_FAILURES
    except OSError:
        return True  # it cannot be counted, but it must not go on for ever


def _say(says: int | None, text: bytes) -> None:
    if says is None:
        return
    try:
        os.write(says, text)
        os.close(says)
    except BrokenPipeError:
        logger.warning("whoever started this hub has gone")


def _set_up(directory: Path, resume: bool, node_pid: int, lock: int | None) -> Hub:
    if lock is None and place.take_lock(directory) is None:
        raise ClusterError(f"{directory.name} has a hub already")
    config = configuration.saved(directory)
    connection = read_connection(directory) if resume else _new_connection(directory, config)
    limits.raise_file_limit()
    limit = limits.seat_limit(config)
    listener = transport.listen(connection.address)
    connection = msgspec.structs.replace(connection, pid=os.getpid(), node_pid=node_pid or connection.node_pid)
    write_connection(connection)
    hub = Hub(
        listener,
        Scheduler(_core_settings(config, connection.host, limit.seats)),
        _node_process(connection, ours=bool(node_pid)),
        Admission(Identity(connection.name, connection.key), limit),
        Host(
            name=connection.host,
            capacity=capacity.of_host(config),
            start_timeout_s=config.start_timeout_s,
            tail=lambda: place.last_lines(directory / place.LOG_NAME),
        ),
        StoreDoor(directory / STORE_SOCKET, connection.key),
    )
    _handle_signals(hub)
    hub.begin(resume=resume)
    return hub


def _new_connection(directory: Path, config: Config) -> Connection:
    socket = directory / place.SOCKET_NAME
    return Connection(
        name=directory.name,
        address=f"{SCHEMES[config.transport]}:{socket}",
        key=os.urandom(32).hex(),
        pid=os.getpid(),
        version=VERSION,
        python=PYTHON,
        host=os.uname().nodename,
        started_at=time.time(),
        directory=str(directory),
    )


def _node_process(connection: Connection, ours: bool) -> LocalNode:
    """The node of this cluster; whenever a new one is started, the connection file names it."""

    def spawn() -> int:
        pid = spawn_node(connection.directory)
        write_connection(msgspec.structs.replace(connection, node_pid=pid))
        return pid

    return LocalNode(spawn, connection.node_pid, ours)


def _core_settings(config: Config, node: str, max_seats: int) -> CoreSettings:
    return CoreSettings(
        node=node,
        pid=os.getpid(),
        lease_s=max(config.lease_s, ARRIVAL_S),
        max_seats=max_seats,
        interrupt_grace_s=config.interrupt_grace_s,
        start_timeout_s=config.start_timeout_s,
    )


def _handle_signals(hub: Hub) -> None:
    def terminate(number: int, _frame: FrameType | None) -> None:
        hub.stop(f"the hub was told to end ({signal.Signals(number).name})")

    def child_ended(_number: int, _frame: FrameType | None) -> None:
        hub.child_ended()

    signal.signal(signal.SIGTERM, terminate)
    signal.signal(signal.SIGCHLD, child_ended)
