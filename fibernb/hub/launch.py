"""Start the hub of a cluster as a process of its own session, and wait until it answers.

Two descriptors go to the new process: the lock of the cluster's directory, taken here so that there is no moment
without an owner, and a pipe on which the hub says `READY`, or why it cannot start.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path
from typing import IO, Final

import msgspec

from fibernb import config as configuration
from fibernb.config import Config
from fibernb.environment import allowed
from fibernb.errors import BackendError, ClusterError, NotConnected
from fibernb.hub import place
from fibernb.hub.connection import Connection, is_fibernb_process, list_connections, read_connection
from fibernb.hub.spawn import READY

GRACE_S: Final = 2.0  # for a hub that is told to give up
POLL_S: Final = 0.01


def launch(config: Config, *, directory: Path | None = None, resume: bool = False) -> Connection:
    """Start the hub of a new cluster or, with ``resume``, the hub of one whose hub was killed.

    Parameters
    ----------
    directory : the cluster's own; needed to resume, otherwise made up below the runtime directory.

    Raises `ClusterError` that says what to do when it cannot be started or does not answer within ``start_timeout_s``.
    """
    if resume:
        return _resume(directory, config)
    is_new = directory is None
    directory = directory or _new_directory(config)
    try:
        lock = place.take_lock(directory)
    except ClusterError:
        if is_new:
            directory.rmdir()  # there is nothing in it, and nobody who would remove it
        raise
    if lock is None:
        raise ClusterError(f"there is a cluster in {directory} already: attach to it, or stop it")
    try:
        _save(msgspec.structs.replace(config, name=directory.name), directory)
        return _start(directory, config, lock)
    except BaseException:
        place.remove(directory)
        raise
    finally:
        os.close(lock)


def _new_directory(config: Config) -> Path:
    try:
        return place.new_directory(config)
    except FileExistsError:
        if any(connection.name == config.name for connection in list_connections(config)):
            raise ClusterError(
                f"a cluster called {config.name!r} runs already: attach to it, stop it, or choose another name"
            ) from None
    return place.new_directory(config)  # what a dead one had left has been removed


def _save(config: Config, directory: Path) -> None:
    try:
        configuration.save(config, directory)
    except OSError as error:
        raise place.cannot_write(directory, error) from error


def _resume(directory: Path | None, config: Config) -> Connection:
    """Start the hub again unless it lives, or somebody else is starting it: then wait for that one."""
    end = time.monotonic() + config.start_timeout_s
    while time.monotonic() < end:
        if directory is None or not directory.is_dir():
            raise NotConnected(f"the cluster at {directory} has ended: start a new one")
        lock = place.take_lock(directory)
        if lock is not None:
            try:
                read_connection(directory)
                return _start(directory, config, lock, "--resume")
            finally:
                os.close(lock)
        connection = read_connection(directory)
        if is_fibernb_process(connection.pid):
            return connection
        time.sleep(POLL_S)
    raise ClusterError(f"the hub at {directory} did not come up again within {config.start_timeout_s:g} s")


def _start(directory: Path, config: Config, lock: int, *options: str) -> Connection:
    says, said = os.pipe()
    try:
        process = _spawn(directory, config, lock, said, options)
    finally:
        os.close(said)
    try:
        answer = _answer(says, config.start_timeout_s)
    except BaseException:
        _end(process)
        raise
    finally:
        os.close(says)
    if answer != READY:
        _end(process)
        raise _failure(directory, answer)
    with contextlib.suppress(RuntimeError):  # no more threads are allowed: then it stays a zombie when it ends
        threading.Thread(target=process.wait, daemon=True, name="fibernb-reaper").start()
    return read_connection(directory)


def _spawn(directory: Path, config: Config, lock: int, said: int, options: tuple[str, ...]) -> subprocess.Popen[bytes]:
    command = [*python_command(), "hub", f"--directory={directory}", f"--lock={lock}", f"--says={said}", *options]
    with _log(directory / place.LOG_NAME) as log:
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(config),
                pass_fds=(lock, said),
                start_new_session=True,
            )
        except BlockingIOError as error:
            raise BackendError(
                "the system does not let you start another process: end some, or raise the limit (ulimit -u)"
            ) from error
        except OSError as error:
            raise BackendError(f"the hub's process cannot be started with {sys.executable}: {error}") from error


def _log(path: Path) -> IO[bytes]:
    try:
        return open(path, "ab", opener=_private)
    except OSError as error:
        raise place.cannot_write(path, error) from error


def python_command() -> list[str]:
    """How a process of FiberNB is started: this Python, with nothing of the working directory on its path."""
    if not sys.executable:
        raise BackendError("this Python does not know its own executable, so it cannot start a hub")
    return [sys.executable, "-P", "-m", "fibernb"]


def environment(config: Config) -> dict[str, str]:
    """The variables of hub, node and engines: the allowed ones, and where this FiberNB is found."""
    variables = allowed(os.environ, config.env_passthrough)
    root = str(Path(__file__).parents[2])
    if root not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [variables.get("PYTHONPATH"), root]))
    return variables


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _answer(says: int, timeout_s: float) -> bytes:
    """What the hub says, up to the end of the pipe; empty when it died first, `TimeoutError` text when it is silent."""
    poller = select.poll()
    poller.register(says, select.POLLIN)
    end = time.monotonic() + timeout_s
    answer = b""
    while poller.poll(max(0.0, end - time.monotonic()) * 1000):
        part = os.read(says, 65_536)
        answer += part
        if not part or answer == READY:
            return answer
    return f"it did not answer within {timeout_s:g} s (start_timeout_s)".encode()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _failure(directory: Path, answer: bytes) -> ClusterError:
    text = answer.decode(errors="replace") or "its process ended"
    tail = place.last_lines(directory / place.LOG_NAME)
    where = f"\nits log:\n{tail}" if tail else ""
    return ClusterError(f"the hub of cluster {directory.name} could not start: {text}{where}")
