"""Where clusters of this user live on disk: one private directory each, and the lock that says that its hub lives.

``<runtime directory>/<cluster name>/`` holds connection.json, config.json, hub.sock, store.sock, hub.lock,
hub.log and logs/.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from fibernb.config import Config
from fibernb.errors import ClusterError
from fibernb.model import Rank
from fibernb.store.names import unlink_all_of
from fibernb.wire.storetalk import STORE_SOCKET

LOCK_NAME: Final = "hub.lock"
LOG_NAME: Final = "hub.log"
SOCKET_NAME: Final = "hub.sock"
LOGS_NAME: Final = "logs"
DYING_S: Final = 0.5

MAX_SOCKET_PATH_BYTES: Final = 103  # the smallest limit there is (macOS), less the terminating zero


def runtime_dir(config: Config, environ: Mapping[str, str] | None = None) -> Path:
    """The directory under which new clusters of this user get theirs."""
    return runtime_dirs(config, environ)[0]


def runtime_dirs(config: Config, environ: Mapping[str, str] | None = None) -> list[Path]:
    """Every directory in which clusters of this user may be found, whatever kind of session started them."""
    if config.runtime_dir:
        return [Path(config.runtime_dir).expanduser().absolute()]
    environ = os.environ if environ is None else environ
    session = environ.get("XDG_RUNTIME_DIR", "")
    places = [Path(session) / "fibernb"] if session and os.access(session, os.W_OK | os.X_OK) else []
    return [*places, Path(tempfile.gettempdir()).absolute() / f"fibernb-{os.getuid()}"]


def make_private(directory: Path) -> None:
    """Create a directory that only this user can enter; check it if it is there already.

    Raises `ClusterError` when it cannot be made, is somebody else's, or is open to others.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise cannot_write(directory, error) from error
    check_private(directory)


def is_private(directory: Path) -> bool:
    """Whether this is a directory that `check_private` would accept."""
    try:
        check_private(directory)
    except ClusterError:
        return False
    return True


def check_private(directory: Path) -> None:
    """Raise `ClusterError` unless this is a real directory of this user's that no one else can enter."""
    try:
        found = directory.lstat()
    except OSError as error:
        raise cannot_write(directory, error) from error
    advice = "remove it, or set runtime_dir (FIBERNB_RUNTIME_DIR) to a directory of your own"
    if not stat.S_ISDIR(found.st_mode):
        raise ClusterError(f"{directory} is not a directory: {advice}")
    if found.st_uid != os.getuid():
        raise ClusterError(f"{directory} belongs to user {found.st_uid}, not to you: {advice}")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise ClusterError(f"{directory} is open to others (mode {mode:04o}): chmod 700 {directory}, or {advice}")


def cannot_write(path: Path, error: OSError) -> ClusterError:
    """What to tell the user when a file or directory of a cluster cannot be made."""
    advice = "set runtime_dir (FIBERNB_RUNTIME_DIR) to a directory that you can write to"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = f"free some space there, or {advice}"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        advice = "close files, or raise the limit of open files (ulimit -n)"
    return ClusterError(f"{path} cannot be used: {error.strerror or error}; {advice}")


def new_directory(config: Config) -> Path:
    """A fresh private directory for a cluster: by its configured name, or by one that is made up.

    Raises `FileExistsError` when there is a directory of the configured name.
    """
    base = runtime_dir(config)
    make_private(base)
    while True:
        directory = base / (config.name or f"{config.backend}-{os.urandom(2).hex()}")
        check_socket_path(directory)
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            if config.name:
                raise
        except OSError as error:
            raise cannot_write(directory, error) from error
        else:
            return directory


def check_socket_path(directory: Path) -> None:
    """Raise `ClusterError` when a socket in this directory would have too long a path for the system."""
    longest = directory / max(SOCKET_NAME, STORE_SOCKET, key=len)
    path = os.fsencode(longest)
    if len(path) > MAX_SOCKET_PATH_BYTES:
        raise ClusterError(
            f"the socket path {longest} has {len(path)} bytes, "
            f"the system allows {MAX_SOCKET_PATH_BYTES}: "
            "set runtime_dir (FIBERNB_RUNTIME_DIR) to a shorter path, or give the cluster a shorter name"
        )


def cluster_directories(config: Config) -> Iterator[Path]:
    """The directories of all clusters of this user, dead ones included."""
    first, *others = runtime_dirs(config)
    if first.is_dir():
        check_private(first)
    for base in [first, *others]:
        if is_private(base):
            yield from sorted(path.parent for path in base.glob(f"*/{LOCK_NAME}") if not path.parent.is_symlink())


def remove(directory: Path) -> None:
    """Take a cluster's directory away, and what it has in memory by name; others may remove it at the same time."""
    unlink_all_of(directory)
    shutil.rmtree(directory, ignore_errors=True)


def take_lock(directory: Path) -> int | None:
    """Become the one hub of a cluster; None when there is one.

    Returns the descriptor that holds the lock. The lock is free again when every process that has inherited it has
    closed it or has died.
    """
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise cannot_write(directory / LOCK_NAME, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(directory: Path) -> bool:
    """Whether the cluster has a hub that lives or is being started."""
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def has_died(directory: Path, patience_s: float = DYING_S) -> bool:
    """Whether the cluster has no hub any more. One that is being killed may lose its links a moment before its lock."""
    end = time.monotonic() + patience_s
    while is_locked(directory):
        if time.monotonic() >= end:
            return False
        time.sleep(0.01)
    return True


def engine_log(directory: Path, rank: Rank, kind: str = "") -> Path:
    """What the engines of a rank have written; ``kind`` "native": beside Python's own streams."""
    name = f"rank-{rank}" if rank >= 0 else f"extra-{-rank}"
    return directory / LOGS_NAME / (f"{name}.{kind}.log" if kind else f"{name}.log")


def last_lines(path: Path, count: int = 20) -> str:
    """The end of a text file; nothing when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 200 * count))
            return b"\n".join(file.read().splitlines()[-count:]).decode(errors="replace")
    except OSError:
        return ""
