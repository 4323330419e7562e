"""The directories of clusters: private, findable, lockable."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fibernb.config import Config
from fibernb.errors import ClusterError
from fibernb.hub import place


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_the_configured_runtime_directory_is_the_only_one(base: Path) -> None:
    assert place.runtime_dirs(Config(runtime_dir=str(base))) == [base]


def test_otherwise_the_sessions_then_the_temporary_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/somewhere/tmp")
    temporary = Path(f"/somewhere/tmp/fibernb-{os.getuid()}")
    assert place.runtime_dirs(Config(), {"XDG_RUNTIME_DIR": str(tmp_path)}) == [tmp_path / "fibernb", temporary]
    assert place.runtime_dirs(Config(), {"XDG_RUNTIME_DIR": str(tmp_path / "missing")}) == [temporary]
    assert place.runtime_dir(Config(), {}) == temporary


def test_a_private_directory_is_made_for_the_user_alone(base: Path) -> None:
    place.make_private(base)
    assert base.stat().st_mode & 0o777 == 0o700
    place.make_private(base)


def test_a_directory_that_is_open_to_others_is_refused(base: Path) -> None:
    base.mkdir(mode=0o755)
    base.chmod(0o755)
    with pytest.raises(ClusterError, match=r"is open to others \(mode 0755\): chmod 700"):
        place.make_private(base)
    assert not place.is_private(base)


def test_somebody_elses_directory_is_refused(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.make_private(base)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(ClusterError, match=f"belongs to user {base.stat().st_uid}, not to you"):
        place.check_private(base)


def test_links_and_files_are_refused(base: Path, tmp_path: Path) -> None:
    base.symlink_to(tmp_path)
    with pytest.raises(ClusterError, match="is not a directory"):
        place.make_private(base)
    base.unlink()
    base.write_text("")
    with pytest.raises(ClusterError, match="runtime_dir"):
        place.make_private(base)


def test_a_parent_that_is_a_file_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ClusterError, match=r"cannot be used: .*; set runtime_dir"):
        place.make_private(tmp_path / "file" / "run")


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.ENOSPC, "free some space"), (errno.EMFILE, "ulimit -n"), (errno.EROFS, "that you can write to")],
)
def test_errors_of_the_system_come_with_advice(number: int, advice: str) -> None:
    error = place.cannot_write(Path("/x"), OSError(number, os.strerror(number)))
    assert advice in str(error)
    assert os.strerror(number) in str(error)


def test_names_are_made_up_and_differ(base: Path) -> None:
    config = Config(runtime_dir=str(base))
    made = {place.new_directory(config) for _ in range(20)}
    assert len(made) == 20
    assert all(path.name.startswith("local-") and path.stat().st_mode & 0o777 == 0o700 for path in made)


def test_a_configured_name_is_taken_once(base: Path) -> None:
    config = Config(runtime_dir=str(base), name="mine")
    assert place.new_directory(config) == base / "mine"
    with pytest.raises(FileExistsError):
        place.new_directory(config)


def test_a_path_that_no_socket_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="shorter path, or give the cluster a shorter name"):
        place.new_directory(Config(runtime_dir=str(tmp_path / ("x" * 80)), name="y" * 60))


def test_clusters_are_directories_with_a_lock_file(base: Path) -> None:
    config = Config(runtime_dir=str(base))
    assert list(place.cluster_directories(config)) == []
    cluster, other = place.new_directory(config), base / "work-of-the-user"
    other.mkdir()
    assert list(place.cluster_directories(config)) == []
    lock = place.take_lock(cluster)
    assert lock is not None
    os.close(lock)
    assert list(place.cluster_directories(config)) == [cluster]
    base.chmod(0o755)
    with pytest.raises(ClusterError, match="open to others"):
        list(place.cluster_directories(config))


def test_the_lock_has_one_holder(tmp_path: Path) -> None:
    assert not place.is_locked(tmp_path)
    lock = place.take_lock(tmp_path)
    assert lock is not None
    assert place.is_locked(tmp_path)
    assert place.take_lock(tmp_path) is None
    os.close(lock)
    assert not place.is_locked(tmp_path)


def test_the_lock_is_free_when_its_holder_dies(tmp_path: Path) -> None:
    lock = place.take_lock(tmp_path)
    assert lock is not None
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock])
    os.close(lock)
    assert place.is_locked(tmp_path)
    holder.kill()
    holder.communicate()
    assert not place.is_locked(tmp_path)


def test_no_lock_where_there_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cannot be used"):
        place.take_lock(tmp_path / "gone")


def test_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert place.last_lines(path) == ""
    path.write_bytes(b"".join(b"line %d \xff\n" % number for number in range(10_000)))
    assert place.last_lines(path, 2) == "line 9998 \ufffd\nline 9999 \ufffd"


def test_a_hub_that_lets_go_of_its_lock_has_died(tmp_path: Path) -> None:
    assert place.has_died(tmp_path)
    lock = place.take_lock(tmp_path)
    assert lock is not None
    assert not place.has_died(tmp_path, patience_s=0.0)
    dying = threading.Timer(0.05, os.close, [lock])
    dying.start()
    assert place.has_died(tmp_path, patience_s=10.0)
    dying.join()
