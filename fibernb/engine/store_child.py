"""The object store of a node, as its child process: started when somebody calls it, started again after its death."""

from __future__ import annotations

import faulthandler
import gc
import os
import secrets
import signal
import socket
import time
import traceback
from pathlib import Path
from typing import Final, NoReturn

from fibernb.config import Config
from fibernb.engine import system
from fibernb.engine.streams import APPEND
from fibernb.errors import ConfigError
from fibernb.store import process as store_process
from fibernb.store.process import StoreSettings
from fibernb.transport import unix
from fibernb.transport.socket_file import SocketFile
from fibernb.wire.handshake import StoreEnded
from fibernb.wire.storetalk import STORE_SOCKET

GENERATIONS: Final = 2**22  # a new store gets one of these numbers; a restarted node does not know the last one
LOG_NAME: Final = "store.log"  # beside the logs of the engines
CRASHED_EXIT_CODE: Final = 70
PREDECESSOR_S: Final = 2.0  # that the store of a node before may take to end
PAUSE_S: Final = 1.0  # after a store that has ended, until another one is started


def _bind(path: str) -> tuple[socket.socket, SocketFile]:
    """The store of a node that was killed dies right after it, so that its socket may live for a moment yet."""
    deadline = time.monotonic() + PREDECESSOR_S
    while True:
        try:
            return unix.bind(path)
        except ConfigError:
            if time.monotonic() > deadline:
                raise
        time.sleep(PREDECESSOR_S / 100)


class StoreChild:
    """The socket that users of the store call, and the process behind it.

    Nobody but the node reads the socket while there is no process; who calls meanwhile waits in it.
    """

    def __init__(self, directory: Path, key: str, config: Config) -> None:
        self._directory = directory
        self._key = key
        self._config = config
        self._listening, self._file = _bind(str(directory / STORE_SOCKET))
        self._generation = 0
        self._pid = 0
        self._not_before = 0.0

    @property
    def socket_fd(self) -> int:
        return self._listening.fileno()

    def watch_after_s(self, now: float) -> float | None:
        """In how many seconds the socket is to be watched: then, if it is readable, `start`. None: not at all."""
        return None if self._pid else max(self._not_before - now, 0.0)

    def start(self, node_fds: list[int]) -> None:
        """Fork the store process.

        Parameters
        ----------
        node_fds : descriptors of the node that the process must not touch.
        """
        self._generation = 1 + secrets.randbelow(GENERATIONS - 1)
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            self._not_before = time.monotonic() + PAUSE_S  # who calls waits, until there is a process again
            return
        if pid == 0:
            self._become_store(parent, node_fds)
        self._pid = pid

    def ended(self, pid: int, exit_code: int) -> StoreEnded | None:
        """Told of a child's end; what to tell the hub if it was the store."""
        if pid != self._pid:
            return None
        self._pid = 0
        self._not_before = time.monotonic() + PAUSE_S
        how = f"was killed by signal {-exit_code}" if exit_code < 0 else f"exited with code {exit_code}"
        return StoreEnded(generation=self._generation, reason=f"the object store {how}")

    def end(self) -> None:
        """Kill the process, wait until it has ended, and start none any more."""
        self._listening.close()
        self._file.remove()
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def _become_store(self, parent: int, node_fds: list[int]) -> NoReturn:
        try:
            self._detach(parent, node_fds)
            settings = StoreSettings(directory=str(self._directory), key=self._key, generation=self._generation)
            store_process.main(self._listening, settings, self._config)
        except BaseException:  # noqa: BLE001  the last chance to say why
            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        finally:
            os._exit(CRASHED_EXIT_CODE)

    def _detach(self, parent: int, node_fds: list[int]) -> None:
        """Leave everything behind that is the node's."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setpgid(0, 0)
        system.die_with_parent(parent)
        system.set_process_name("fibernb-store")
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in (0, *node_fds):
            os.dup2(nothing, fd, inheritable=fd == 0)
        log = os.open(self._directory / "logs" / LOG_NAME, APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.enable(file=2)
        gc.enable()
