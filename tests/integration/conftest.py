"""Real hubs, nodes and engines. Every test leaves no process and no file behind, or fails."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import psutil
import pytest

import fibernb as fnb
from fibernb.client.cluster import Cluster


class Place:
    """A runtime directory of its own, with the means to look into it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {**os.environ, "FIBERNB_RUNTIME_DIR": str(directory)}

    def processes(self) -> list[psutil.Process]:
        """Everything of FiberNB that belongs here."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            command = " ".join(process.cmdline())
            return "fibernb" in command and str(self.directory) in command and process.status() != "zombie"
        except psutil.Error:
            return False

    def start(self, code: str, *arguments: str) -> subprocess.Popen[str]:
        """A Python process that runs ``code`` here."""
        return subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), *arguments],
            env=self.environment,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """As `start`, to its end."""
        process = self.start(code, *arguments)
        try:
            out, err = process.communicate(timeout=90)
        finally:
            process.kill()
            process.wait()
        return subprocess.CompletedProcess([], process.returncode, out, err)

    def wait_empty(self, timeout_s: float = 20) -> None:
        """Wait until nothing of FiberNB is left here."""
        wait_until(lambda: not self.processes() and not self.clusters(), timeout_s, self.leftovers)

    def clusters(self) -> list[Path]:
        return [path for path in self.directory.iterdir() if path.is_dir()]

    def leftovers(self) -> str:
        commands = [" ".join(process.cmdline()) for process in self.processes()]
        logs = [log.read_text()[-2000:] for log in self.directory.glob("*/hub.log")]
        return "\n".join([*commands, *map(str, self.clusters()), *logs])


def wait_until(condition: Callable[[], object], timeout_s: float = 20, describe: Callable[[], str] = str) -> None:
    """Wait for a condition to come true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not come true:\n{describe()}"
        time.sleep(0.02)


def interrupt_within(function: str) -> threading.Thread:
    """Send this process an interrupt once its main thread is in a function of that name."""
    main = threading.main_thread().ident
    assert main is not None

    def stack() -> Iterator[str]:
        frame: FrameType | None = sys._current_frames()[main]
        while frame is not None:
            yield frame.f_code.co_name
            frame = frame.f_back

    def interrupt() -> None:
        wait_until(lambda: function in stack())
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    directory = Path(tempfile.mkdtemp(prefix="fnb-"))
    found = Place(directory)
    before = os.environ.get("FIBERNB_RUNTIME_DIR")
    os.environ["FIBERNB_RUNTIME_DIR"] = str(directory)
    try:
        yield found
        found.wait_empty()
    finally:
        os.environ.pop("FIBERNB_RUNTIME_DIR")
        if before is not None:
            os.environ["FIBERNB_RUNTIME_DIR"] = before
        for process in found.processes():
            process.kill()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(place: Place) -> Iterator[Cluster]:
    """A cluster of two seats for all tests of a module."""
    cluster = fnb.init(workers=2, lease_s=5)
    cluster.scale(2, timeout_s=60)
    yield cluster
    fnb.shutdown()


@pytest.fixture
def own_cluster(place: Place) -> Iterator[Cluster]:
    """A cluster of two seats for one test."""
    cluster = fnb.init(workers=2, lease_s=5)
    cluster.scale(2, timeout_s=60)
    yield cluster
    fnb.shutdown()
    place.wait_empty()
