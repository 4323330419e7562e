"""Engines for tests: one in this process, driven from a thread, or real ones under a real node process."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from fibernb import config as configuration
from fibernb.config import Config
from fibernb.core.messages import Exit
from fibernb.engine.engine import Engine
from fibernb.wire.handshake import EndNode, Seat
from tests.engine.fakehub import FakeHub

NODE_PROGRAM = "import sys, pathlib, fibernb.engine.node as node; sys.exit(node.main(pathlib.Path(sys.argv[1])))"
RANK = 3
ENGINE = 7
SEAT = Seat(engine=ENGINE, rank=RANK)

_names = itertools.count()


class InProcess:
    """Runs an engine in the main thread of the tests, with the scenario in another one."""

    def __init__(self) -> None:
        self.engine: Engine | None = None

    def play(self, scenario: Callable[[FakeHub], None], seat: Seat = SEAT) -> int:
        """The exit code of the engine, once the scenario is over; an assertion that fails there fails here."""
        hub = FakeHub(f"memory:engine-{next(_names)}")
        self.engine = Engine(address=hub.listener.address, key="key")
        self.engine.interrupts.install()
        failures: list[BaseException] = []

        def direct() -> None:
            try:
                hub.wait(lambda: ENGINE in hub.datas)
                scenario(hub)
            except BaseException as failure:
                failures.append(failure)
            finally:
                hub.control(ENGINE, Exit())

        director = threading.Thread(target=direct)
        director.start()
        code = self.engine.run(seat)
        director.join()
        hub.close()
        if failures:
            raise failures[0]
        return code


@pytest.fixture
def in_process() -> Iterator[InProcess]:
    before = signal.getsignal(signal.SIGINT)
    yield InProcess()
    signal.signal(signal.SIGINT, before)


class NodeProcess:
    """A node in a process of its own, and the hub that it talks to."""

    def __init__(self, config: Config) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="fnb-"))
        self.address = f"unix:{self.directory}/hub.sock"
        self.hub = FakeHub(self.address)
        connection = {"name": "test", "address": self.address, "key": "key"}
        (self.directory / "connection.json").write_bytes(msgspec.json.encode(connection))
        configuration.save(config, self.directory)
        self.process = subprocess.Popen([sys.executable, "-c", NODE_PROGRAM, str(self.directory)])

    def pids(self) -> list[int]:
        """Of the engines, by their numbers."""
        return [hello.pid for _, hello in sorted(self.hub.hellos.items())]

    def end(self) -> None:
        if self.process.poll() is None:
            if self.hub.node is not None:
                self.hub.tell_node(EndNode())
                self.hub.settle(0.05)
            else:
                self.process.terminate()
            self.process.wait(10)
        self.hub.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def is_alive(pid: int) -> bool:
    """Whether there is a process of that number that has not ended (zombies have)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def node() -> Iterator[NodeProcess]:
    running = NodeProcess(Config(lease_s=20.0, preload=()))
    yield running
    running.end()


@pytest.fixture(scope="module")
def shared_node() -> Iterator[NodeProcess]:
    """One node with engines 0 and 1, for all tests of a module."""
    running = NodeProcess(Config(lease_s=20.0))
    running.hub.fork([0, 1])
    yield running
    running.end()


@pytest.fixture
def short_lease() -> Iterator[NodeProcess]:
    running = NodeProcess(Config(lease_s=0.5, preload=()))
    yield running
    if running.process.poll() is None:
        os.kill(running.process.pid, signal.SIGKILL)
    running.end()
