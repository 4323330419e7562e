"""How large a store may become."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from fibernb.config import Config
from fibernb.errors import ConfigError
from fibernb.store import sizes
from fibernb.store.memory import Account
from fibernb.store.sizes import Place, limits

GB = 10**9
MEMORY = [
    Account(what="this host", limit_bytes=64 * GB, used_bytes=GB),
    Account(what="the control group", limit_bytes=10 * GB, used_bytes=GB),
]
DISK = Place(directory="/tmp", free_bytes=100 * GB)


def test_a_share_of_what_the_control_group_gives() -> None:
    found = limits(Config(), MEMORY, None, DISK)
    assert found.arena_bytes == pytest.approx(3 * GB, abs=4096)
    assert found.arena_bytes % 4096 == 0
    assert found.arena_reason == "30 % of 10,000 MB of memory"
    assert (found.spill_bytes, found.spill_reason) == (50 * GB, "/tmp")
    assert found.ahead_bytes == found.arena_bytes // 8


def test_no_more_than_a_gigabyte_is_kept_warm() -> None:
    assert limits(Config(store_bytes=9 * GB), MEMORY, None, DISK).ahead_bytes == 2**30


def test_the_64_mb_of_a_container() -> None:
    place = Place(directory="/dev/shm", free_bytes=64 * 2**20)
    found = limits(Config(store_dir="/dev/shm"), MEMORY, place, DISK)
    assert found.arena_bytes <= 0.8 * place.free_bytes
    assert found.arena_reason == "80 % of the 67 MB that are free in /dev/shm"
    assert found.ahead_bytes == found.arena_bytes // 8
    roomy = Place(directory="/dev/shm", free_bytes=50 * GB)
    assert limits(Config(store_dir="/dev/shm"), MEMORY, roomy, DISK).arena_bytes > 2.9 * GB


def test_what_is_configured() -> None:
    found = limits(Config(store_bytes=5 * GB, spill_bytes=7), MEMORY, None, DISK)
    assert found.arena_bytes == pytest.approx(5 * GB, abs=4096)
    assert found.arena_reason == "as store_bytes says"
    assert found.spill_bytes == 7
    assert limits(Config(store_bytes=0), MEMORY, None, DISK).arena_bytes == 4096


def test_without_a_disk_nothing_is_spilled() -> None:
    found = limits(Config(), [], None, None)
    assert found.spill_bytes == 0
    assert "set spill_dir" in found.spill_reason
    assert found.arena_bytes == pytest.approx(0.3 * 2**30, abs=4096)


def test_the_file_system_of_a_path(tmp_path: Path) -> None:
    mounts = ["/dev/a / ext4 rw 0 0", "tmpfs /run tmpfs rw 0 0", "x /run/data ext4 rw 0 0", "y /run/data xfs rw 0 0"]
    found = [sizes.file_system(path, mounts) for path in ("/home", "/run", "/run/user", "/running", "/run/data/x")]
    assert found == ["ext4", "tmpfs", "tmpfs", "ext4", "xfs"]
    assert sizes.file_system("/x", []) == ""


def test_a_disk_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/ramdisk")
    monkeypatch.setattr(sizes, "_mounts", lambda: ["t / tmpfs rw 0 0", f"d {tmp_path} ext4 rw 0 0"])
    found = sizes.spill_place(Config(), tmp_path)
    assert found is not None
    assert found.directory == str(tmp_path)
    monkeypatch.setattr(sizes, "_mounts", lambda: ["t / tmpfs rw 0 0"])
    assert sizes.spill_place(Config(), tmp_path) is None


def test_directories_that_were_configured(tmp_path: Path) -> None:
    place = sizes.spill_place(Config(spill_dir=str(tmp_path)), Path("/"))
    assert place is not None
    assert place.free_bytes > 0
    assert sizes.arena_place(Config()) is None
    assert sizes.arena_place(Config(store_dir=str(tmp_path))) is not None
    with pytest.raises(ConfigError, match="store_dir is '/no/such', which cannot be used: No such file"):
        sizes.arena_place(Config(store_dir="/no/such"))
