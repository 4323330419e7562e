"""The connection file of a cluster: who may read it may use the cluster."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from fibernb.config import DEFAULTS, Config
from fibernb.errors import AuthError, ClusterError, NotConnected, VersionMismatch
from fibernb.hub import place
from fibernb.wire.handshake import PROTOCOL

FILE_NAME: Final = "connection.json"
MAX_FILE_BYTES: Final = 65_536


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a cluster, and what it is."""

    name: str
    address: str
    key: str
    pid: int  # of the hub
    node_pid: int = 0
    version: str = ""  # of FiberNB
    protocol: int = PROTOCOL
    python: tuple[int, int] = (0, 0)
    host: str = ""
    started_at: float = 0.0  # seconds since 1970
    directory: str = ""


def write_connection(connection: Connection) -> Path:
    """Put the connection file into the cluster's directory, whole or not at all, for this user's eyes only."""
    path = Path(connection.directory) / FILE_NAME
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(connection)))
        draft.replace(path)
    except OSError as error:
        raise place.cannot_write(path, error) from error
    return path


def read_connection(target: str | Path, config: Config = DEFAULTS) -> Connection:
    """The connection of a cluster, by its name, its directory or its connection file.

    Raises `NotConnected` when there is no such cluster, `AuthError` when its file is open to others or belongs to
    somebody else, `VersionMismatch` when it was written by a FiberNB that speaks another protocol, `ClusterError` when
    it is no connection file.
    """
    path = _file_of(target, config)
    return msgspec.structs.replace(_decode(path, _read_private(path)), directory=str(path.parent.absolute()))


def list_connections(config: Config = DEFAULTS) -> list[Connection]:
    """The clusters of this user that live; what dead ones have left behind is removed."""
    found = [_living(directory) for directory in place.cluster_directories(config)]
    return [connection for connection in found if connection is not None]


def is_alive(connection: Connection) -> bool:
    """Whether the cluster has a hub, or at least a node that waits for one."""
    return place.is_locked(Path(connection.directory)) or is_fibernb_process(connection.node_pid)


def is_fibernb_process(pid: int) -> bool:
    """Whether a process of that number lives and is one of ours, as far as its command line tells."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False
    command_line = Path(f"/proc/{pid}/cmdline")
    try:
        return b"fibernb" in command_line.read_bytes()
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # no /proc on this system: the number must do
    except OSError:
        return False


def _file_of(target: str | Path, config: Config) -> Path:
    path = Path(target).expanduser()
    if isinstance(target, str) and os.sep not in target and not path.is_file():
        return _file_by_name(target, config)
    return path / FILE_NAME if path.is_dir() else path


def _file_by_name(name: str, config: Config) -> Path:
    candidates = [base / name / FILE_NAME for base in place.runtime_dirs(config)]
    return next((path for path in candidates if path.is_file()), candidates[0])


def _read_private(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise NotConnected(
            f"there is no cluster at {path.parent}: `%fiber list` (or `fibernb list`) shows those that there are"
        ) from error
    except OSError as error:
        raise ClusterError(f"{path} cannot be read: {error.strerror or error}") from error
    if state.st_uid != os.getuid():
        raise AuthError(f"{path} belongs to user {state.st_uid}, not to you: it may lead anywhere, so it is not used")
    if state.st_mode & 0o077:
        mode = stat.S_IMODE(state.st_mode)
        raise AuthError(
            f"{path} can be read by others (mode {mode:04o}), and it holds the cluster's key: "
            "stop that cluster and start a new one"
        )
    return content


def _decode(path: Path, content: bytes) -> Connection:
    try:
        if len(content) > MAX_FILE_BYTES:
            raise msgspec.ValidationError("it is too long")
        _check_protocol(path, msgspec.json.decode(content, type=_Versions))
        return msgspec.json.decode(content, type=Connection)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ClusterError(
            f"{path} is not the connection file of a cluster: {error}. Remove it, or name another one"
        ) from error


class _Versions(msgspec.Struct, frozen=True):
    protocol: int
    version: str = "unknown"


def _check_protocol(path: Path, versions: _Versions) -> None:
    if versions.protocol != PROTOCOL:
        raise VersionMismatch(
            f"the cluster at {path.parent} runs FiberNB {versions.version} (protocol {versions.protocol}), which "
            f"cannot talk to this one (protocol {PROTOCOL}): use the environment that started it, or stop it there"
        )


def _living(directory: Path) -> Connection | None:
    """The connection of a cluster that lives; the directory of one that is dead goes."""
    try:
        connection = read_connection(directory)
    except VersionMismatch:
        return None
    except ClusterError:
        _remove_if_dead(directory)
        return None
    if is_alive(connection):
        return connection
    _remove_if_dead(directory)
    return None


def _remove_if_dead(directory: Path) -> None:
    """Only under the lock, so that no hub can start there meanwhile."""
    try:
        lock = place.take_lock(directory)
    except ClusterError:  # somebody else has just removed it
        return
    if lock is not None:
        place.remove(directory)
        os.close(lock)
