"""Real store processes for tests: started at once, killed at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fibernb.config import Config
from fibernb.store.process import StoreSettings
from fibernb.transport import unix
from fibernb.wire.storetalk import STORE_SOCKET

KEY = "the key"
SCRIPT = """
import socket, sys, msgspec
from fibernb.config import Config
from fibernb.store.process import StoreSettings, main
listening = socket.socket(fileno=int(sys.argv[1]))
listening.setblocking(False)
main(listening, msgspec.json.decode(sys.argv[2], type=StoreSettings), msgspec.json.decode(sys.argv[3], type=Config))
"""


class Served:
    """A store in a process of its own, behind a socket that outlives it."""

    def __init__(self, directory: Path, config: Config) -> None:
        self.directory = str(directory)
        self._config = config
        self._listening, _ = unix.bind(str(directory / STORE_SOCKET))
        self._generation = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._generation += 1
        settings = StoreSettings(directory=self.directory, key=KEY, generation=self._generation)
        fd = self._listening.fileno()
        arguments = [str(fd), msgspec.json.encode(settings).decode(), msgspec.json.encode(self._config).decode()]
        return subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments], pass_fds=[fd])

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()

    def start_again(self) -> None:
        self.kill()
        self.process = self._start()

    def close(self) -> None:
        self.kill()
        self._listening.close()


@contextmanager
def serving(directory: Path, **settings: object) -> Iterator[Served]:
    served = Served(directory, Config(**settings))  # type: ignore[arg-type]  # of a test's choice
    try:
        yield served
    finally:
        served.close()
