"""Connection files: written for this user alone, read with suspicion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from fibernb.config import Config
from fibernb.errors import AuthError, ClusterError, NotConnected, VersionMismatch
from fibernb.hub import place
from fibernb.hub.connection import (
    FILE_NAME,
    Connection,
    is_fibernb_process,
    list_connections,
    read_connection,
    write_connection,
)
from fibernb.wire.handshake import PROTOCOL


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(runtime_dir=str(tmp_path / "run"))


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def made(config: Config, name: str = "alpha", **changes: object) -> Connection:
    """A connection file in a directory of its own, whose hub and node are dead."""
    directory = place.new_directory(msgspec.structs.replace(config, name=name))
    lock = place.take_lock(directory)
    assert lock is not None
    os.close(lock)
    connection = Connection(
        name=name,
        address=f"unix:{directory}/hub.sock",
        key="k" * 64,
        pid=dead_pid(),
        version="0.1.0",
        directory=str(directory),
    )
    connection = msgspec.structs.replace(connection, **changes)
    write_connection(connection)
    return connection


def test_a_file_comes_back_by_path_directory_and_name(config: Config) -> None:
    connection = made(config)
    directory = Path(connection.directory)
    assert read_connection(directory / FILE_NAME) == connection
    assert read_connection(directory) == connection
    assert read_connection(str(directory)) == connection
    assert read_connection("alpha", config) == connection


def test_the_file_is_for_this_user_alone_and_whole(config: Config) -> None:
    connection = made(config)
    directory = Path(connection.directory)
    assert (directory / FILE_NAME).stat().st_mode & 0o777 == 0o600
    write_connection(msgspec.structs.replace(connection, pid=1))
    assert read_connection(directory).pid == 1
    assert [path.name for path in directory.glob("connection*")] == [FILE_NAME]


def test_a_moved_file_tells_where_it_lies(config: Config, tmp_path: Path) -> None:
    connection = made(config)
    Path(connection.directory).rename(tmp_path / "moved")
    assert read_connection(tmp_path / "moved").directory == str(tmp_path / "moved")


def test_writing_where_nothing_can_be_written(config: Config) -> None:
    connection = made(config)
    with pytest.raises(ClusterError, match="cannot be used"):
        write_connection(msgspec.structs.replace(connection, directory="/nonexistent"))


@pytest.mark.parametrize("target", ["nobody", "/no/such/place", "no/such/place/connection.json"])
def test_no_cluster(config: Config, target: str) -> None:
    with pytest.raises(NotConnected, match=r"there is no cluster at .*%fiber list"):
        read_connection(target, config)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"protocol": %d}' % PROTOCOL,
        b'{"protocol": "one"}',
        b'{"protocol": %d, "name": 3, "address": "", "key": "", "pid": 0}' % PROTOCOL,
        b"[" * 60_000,
        b" " * 100_000,
    ],
)
def test_garbage_is_not_a_connection_file(config: Config, content: bytes) -> None:
    path = Path(made(config).directory, FILE_NAME)
    path.write_bytes(content)
    with pytest.raises(ClusterError, match="is not the connection file of a cluster"):
        read_connection(path)


def test_another_protocol_is_a_version_mismatch_whatever_else_the_file_holds(config: Config) -> None:
    path = Path(made(config).directory, FILE_NAME)
    path.write_text(json.dumps({"protocol": 99, "version": "7.0", "shape": "unheard of"}))
    with pytest.raises(VersionMismatch, match=r"runs FiberNB 7.0 \(protocol 99\)"):
        read_connection(path)


def test_a_file_that_others_can_read_is_refused(config: Config) -> None:
    path = Path(made(config).directory, FILE_NAME)
    path.chmod(0o644)
    with pytest.raises(AuthError, match="can be read by others"):
        read_connection(path)


def test_a_file_of_somebody_else_is_refused(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(made(config).directory, FILE_NAME)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(AuthError, match="belongs to user"):
        read_connection(path)


def test_a_directory_in_place_of_the_file(config: Config) -> None:
    path = Path(made(config).directory, FILE_NAME)
    path.unlink()
    path.mkdir()
    with pytest.raises(NotConnected):
        read_connection(path)


# ---- which clusters there are --------------------------------------------------------------------------


def test_dead_clusters_are_not_listed_and_are_removed(config: Config) -> None:
    connection = made(config)
    spoilt = Path(made(config, "spoilt").directory)
    (spoilt / FILE_NAME).write_text("garbage")
    empty = Path(made(config, "empty").directory)
    (empty / FILE_NAME).unlink()
    assert list_connections(config) == []
    assert not Path(connection.directory).exists()
    assert not spoilt.exists()
    assert not empty.exists()


def test_a_cluster_whose_hub_lives_is_listed(config: Config) -> None:
    connection = made(config)
    lock = place.take_lock(Path(connection.directory))
    assert lock is not None
    assert list_connections(config) == [connection]
    os.close(lock)
    assert list_connections(config) == []


def test_a_cluster_whose_node_lives_is_listed(config: Config) -> None:
    node = subprocess.Popen([sys.executable, "-c", "input()  # fibernb"], stdin=subprocess.PIPE)
    try:
        connection = made(config, node_pid=node.pid)
        assert list_connections(config) == [connection]
    finally:
        node.kill()
        node.communicate()
    assert list_connections(config) == []


def test_a_cluster_that_is_being_set_up_is_left_alone(config: Config) -> None:
    directory = place.new_directory(config)
    assert list_connections(config) == []
    lock = place.take_lock(directory)
    assert lock is not None
    assert list_connections(config) == []
    assert directory.exists()
    os.close(lock)


def test_what_is_no_cluster_is_left_alone(config: Config) -> None:
    other = place.new_directory(config).parent / "thesis"
    other.mkdir()
    (other / "chapter-1").write_text("")
    list_connections(config)
    assert (other / "chapter-1").exists()


def test_a_cluster_of_another_version_is_left_alone(config: Config) -> None:
    directory = Path(made(config).directory)
    (directory / FILE_NAME).write_text(json.dumps({"protocol": 99}))
    assert list_connections(config) == []
    assert directory.exists()


def test_processes_of_ours_are_told_by_their_command_line() -> None:
    assert not is_fibernb_process(0)
    assert not is_fibernb_process(dead_pid())
    other = subprocess.Popen(["sleep", "60"])
    assert not is_fibernb_process(other.pid)
    other.kill()
    other.wait()
