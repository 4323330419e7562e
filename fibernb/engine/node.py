"""The node process: forks engines, watches them as their parent, and ends with its hub's lease.

It has one thread and no ZeroMQ, so that forking is safe; what engines need has been imported before.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import logging
import os
import select
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import Final

import msgspec

from fibernb import config as configuration
from fibernb.config import Config
from fibernb.engine import system
from fibernb.engine.children import Children, ForkRefused
from fibernb.engine.lock_keeper import LockKeeper
from fibernb.engine.memory_watch import MemoryWatch
from fibernb.engine.process import EngineSettings, prepare
from fibernb.engine.shell import make_shell
from fibernb.engine.store_child import StoreChild
from fibernb.engine.tqdm_bars import report_tqdm
from fibernb.errors import ConfigError, NotConnected
from fibernb.transport import Link, dial
from fibernb.wire import codec, credentials
from fibernb.wire.direct import DOOR
from fibernb.wire.handshake import (
    EndNode,
    EndProcesses,
    Fork,
    ForkFailed,
    MemoryShort,
    NodeHello,
    ProcessExited,
    Refused,
    SignalProcess,
    StoreEnded,
)

CONNECTION_NAME: Final = "connection.json"
NEEDED: Final = (  # by every engine as soon as it lives, is asked for its error, or runs what starts tasks or processes
    "fibernb.engine.operations",
    "fibernb.engine.postmortem_pdb",
    "fibernb.transport.unix",
    "fibernb.multiprocessing.child",
)
THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
RETRY_S: Final = 0.1

logger: Final = logging.getLogger(__name__)


class Hub(msgspec.Struct, frozen=True):
    """What of the connection file a node needs."""

    address: str
    key: str


def read_hub(directory: Path) -> Hub:
    """Where the hub of a cluster is. Raises `ConfigError` when the directory is not that of a cluster."""
    path = directory / CONNECTION_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Hub)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} does not tell where the hub is: {error}") from error


def main(directory: Path, config: Config | None = None) -> int:
    """Be the node of the cluster in ``directory`` until it ends. Returns the exit code of the process.

    Parameters
    ----------
    config : of the cluster; by default what its hub has saved there.
    """
    config = config or configuration.saved(directory)
    hub = read_hub(directory)
    faulthandler.enable(file=2, all_threads=False)  # of the engines too: there it is their log
    system.raise_file_limit()
    system.use_one_arena()
    system.set_process_name("fibernb-node")
    (directory / "logs").mkdir(mode=0o700, exist_ok=True)
    preload((*NEEDED, *config.preload))
    shell = make_shell(directory)
    report_tqdm()
    settings = EngineSettings(
        directory=str(directory), address=hub.address, key=hub.key, inline_bytes=config.inline_bytes
    )
    children = Children(directory, prepare(settings, shell))
    store = StoreChild(directory, hub.key, config)
    return Node(children, store, MemoryWatch(config.memory_fraction), hub, directory, config.lease_s).run()


def preload(modules: tuple[str, ...]) -> None:
    """Import what all engines will want; a module that is not there, or broken, is left for those who want it."""
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")  # there are as many engines as cores already
    for name in modules:
        for part in (name, "numpy.random") if name == "numpy" else (name,):
            try:
                importlib.import_module(part)
            except Exception as error:  # noqa: BLE001  a module may raise anything while it is imported
                logger.warning("cannot preload %s: %s", part, error)


class Node:
    """The loop of the node process."""

    def __init__(
        self, children: Children, store: StoreChild, memory: MemoryWatch, hub: Hub, directory: Path, lease_s: float
    ) -> None:
        self._children = children
        self._store = store
        self._memory = memory
        self._hub = hub
        self._directory = directory
        self._locks = LockKeeper(directory)
        self._lease_s = lease_s
        self._link: Link | None = None
        self._unsent: list[ProcessExited | StoreEnded | MemoryShort] = []
        self._ends = False
        self._pid = os.getpid()
        self._wakeup, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._fds = [self._wakeup, wakeup_write]
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._end)

    def run(self) -> int:
        """Serve one hub after the other until the last one's lease is over, or one says that the cluster ends."""
        gc.collect()
        gc.disable()
        gc.freeze()
        self._locks.begin()
        while not self._ends:
            link = self._find_hub()
            if link is None:
                self._remove_directory()
                break
            self._link = link
            try:
                self._serve(link)
            except NotConnected as error:
                logger.warning("the hub is gone: %s", error)
            link.close()
        self._end_children()
        return 0

    def _end(self, *_: object) -> None:
        """SIGTERM. Engines inherit the handler, and have it mean to them what it means to others."""
        if os.getpid() != self._pid:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        self._ends = True

    # ---- the hub -----------------------------------------------------------------------------------------

    def _find_hub(self) -> Link | None:
        """A link to the hub; None when there was none during the lease, or the cluster's directory is gone."""
        deadline = time.monotonic() + self._lease_s
        while not self._ends and self._directory.exists():
            try:
                link = dial(self._hub.address)
                self._introduce(link)
            except NotConnected:
                if time.monotonic() > deadline:
                    return None
                self._wait(None, RETRY_S)
                self._reap()
            else:
                return link
        return None

    def _introduce(self, link: Link) -> None:
        hello = NodeHello(
            credentials=credentials(self._hub.key),
            node=socket.gethostname(),
            pid=os.getpid(),
            engines=self._children.living(),
            ended=self._children.ended,
        )
        link.send(codec.encode(hello))

    def _serve(self, link: Link) -> None:
        while not self._ends:
            for data in link.receive(0):
                self._obey(codec.to_node.decode(data), link)
            self._reap()
            self._look_at_memory()
            while self._unsent:
                link.send(codec.encode(self._unsent[0]))
                del self._unsent[0]
            if not self._ends:
                self._wait(link, self._time_to_look_s())

    def _obey(self, message: object, link: Link) -> None:
        if isinstance(message, Fork):
            self._fork(message, link)
        elif isinstance(message, EndProcesses):
            self._children.kill(message.engines)
        elif isinstance(message, SignalProcess):
            self._children.signal(message.engine, message.signal)
        elif isinstance(message, EndNode):
            self._ends = True
        elif isinstance(message, Refused):
            logger.error("the hub refuses this node: %s", message.reason)
            self._ends = True

    def _fork(self, message: Fork, link: Link) -> None:
        for index, seat in enumerate(message.seats):
            try:
                self._children.fork(seat, [*self._fds, link.fileno(), self._store.socket_fd])
            except ForkRefused as refusal:
                failed = [left.engine for left in message.seats[index:]]
                link.send(codec.encode(ForkFailed(engines=failed, reason=str(refusal))))
                return

    # ---- children ----------------------------------------------------------------------------------------

    def _reap(self) -> None:
        exits = self._children.reap(self._stranger_ended)
        for exited in exits:
            (self._directory / DOOR.format(engine=exited.engine)).unlink(missing_ok=True)  # one that was killed
        self._locks.ended(exited.engine for exited in exits)
        now = time.monotonic()
        self._locks.look(now)
        self._children.groups.look(now)
        self._unsent += exits

    def _stranger_ended(self, pid: int, exit_code: int) -> None:
        ended = self._store.ended(pid, exit_code)
        if ended is not None:
            self._unsent.append(ended)

    def _wait(self, link: Link | None, timeout_s: float | None) -> None:
        """Until the hub says something, a child has ended, or somebody calls a store that is not there yet."""
        fds = [self._wakeup] if link is None else [self._wakeup, link.fileno()]
        now = time.monotonic()
        watch_after_s = self._store.watch_after_s(now)
        if watch_after_s == 0.0:
            fds.append(self._store.socket_fd)
            watch_after_s = None
        due = (timeout_s, watch_after_s, self._locks.due_s(now), self._children.groups.due_s(now))
        timeout_s = min((seconds for seconds in due if seconds is not None), default=None)
        ready, _, _ = select.select(fds, [], [], timeout_s)
        if self._wakeup in ready:
            os.read(self._wakeup, 4096)
        if self._store.socket_fd in ready:
            self._store.start([*self._fds, *fds[1:2]] if link is not None else self._fds)

    def _end_children(self) -> None:
        self._children.end_all()
        self._store.end()
        self._locks.end()

    def _remove_directory(self) -> None:
        self._end_children()
        logger.warning("no hub came back within the lease: the cluster ends")
        shutil.rmtree(self._directory, ignore_errors=True)

    # ---- memory ------------------------------------------------------------------------------------------

    def _time_to_look_s(self) -> float | None:
        """Until memory is to be looked at; None when there is nothing that could be ended."""
        if not self._memory.is_on or not self._children.are_there:
            return None
        return self._memory.left_s(time.monotonic())

    def _look_at_memory(self) -> None:
        if self._children.are_there:
            short = self._memory.look(self._children.living(), time.monotonic())
            if short is not None:
                self._unsent.append(short)
