"""The arena and the spill file: what is given out is there, and what is not there is said."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fibernb.store.allocator import Extent
from fibernb.store.files import Arena, SpillFile
from fibernb.store.memory import Account
from fibernb.store.orders import BringBack, Grow, Punch, Shrink, SpillOut
from fibernb.store.work import Ended, Move, Work

MB = 2**20
PLENTY = [Account(what="this host", limit_bytes=1000 * MB, used_bytes=0)]


def kept_bytes(fd: int) -> int:
    return os.fstat(fd).st_blocks * 512


def test_the_arena_takes_memory_only_as_it_grows() -> None:
    arena = Arena(1000 * MB, "", lambda: PLENTY)
    assert kept_bytes(arena.fd) == 0
    assert arena.grow(3 * MB) == ""
    assert arena.size_bytes == kept_bytes(arena.fd) == 3 * MB
    assert arena.grow(MB) == ""
    assert arena.grow(50 * MB) == ""
    assert arena.size_bytes == kept_bytes(arena.fd) == 50 * MB
    arena.view(Extent(49 * MB, MB))[:] = bytes(MB)
    arena.shrink(10 * MB)
    arena.shrink(20 * MB)
    assert arena.size_bytes == kept_bytes(arena.fd) == 10 * MB


def test_it_leaves_memory_to_others() -> None:
    account = Account(what="the control group", limit_bytes=1000 * MB, used_bytes=800 * MB)
    arena = Arena(1000 * MB, "", lambda: [*PLENTY, account])
    assert arena.grow(10 * MB) == ""
    problem = arena.grow_ahead(20 * MB)
    assert problem == "the control group is short of memory: 839 of 1,049 MB are in use"
    account = Account(what="the control group", limit_bytes=1000 * MB, used_bytes=960 * MB)
    assert arena.grow(20 * MB).startswith("the control group is short of memory")
    assert arena.size_bytes == 10 * MB


@pytest.fixture
def small_place(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB in memory, such as /dev/shm of a container."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"this test mounts a small tmpfs, which takes the rights of root: {done.stderr}"
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_file_system_that_is_too_small_is_an_error_and_no_sigbus(small_place: Path) -> None:
    arena = Arena(200 * MB, str(small_place), lambda: PLENTY)
    assert list(small_place.iterdir()) == []
    assert arena.grow(200 * MB) == "the system gives the object store no more memory: No space left on device"
    assert 30 * MB <= arena.size_bytes <= 64 * MB
    arena.view(Extent(0, arena.size_bytes))[:] = b"x" * arena.size_bytes


def test_a_whole_store_in_a_place_that_is_too_small(small_place: Path, tmp_path: Path) -> None:
    """In a process of its own, which a SIGBUS would kill: values go on being stored, and come back."""
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from fibernb.store.agent import StoreAgent
from tests.store.serving import KEY, serving
for store_bytes in (None, 200 * 2**20):
    directory = Path({str(tmp_path)!r}, str(store_bytes))
    directory.mkdir()
    with serving(directory, store_dir={str(small_place)!r}, store_bytes=store_bytes, spill_bytes=2**30) as store:
        agent = StoreAgent(store.directory, KEY, "a test", 1000)
        values = [bytes([number]) * 20_000_000 for number in range(12)]
        blocks = [agent.write([memoryview(value)])[0] for value in values]
        for value, block in zip(values, blocks):
            view = agent.map(block)
            assert bytes(view) == value
            del view
        print(agent.describe())
        agent.close()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Described(") == 2


def test_values_go_to_the_disk_and_come_back(tmp_path: Path) -> None:
    spill = SpillFile(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    data = os.urandom(20 * MB + 5)
    assert spill.write(memoryview(data), 3 * MB) == ""
    back = bytearray(len(data))
    assert spill.read(3 * MB, memoryview(back)) == ""
    assert back == data
    before = kept_bytes(spill._fd)
    spill.punch(Extent(3 * MB, 16 * MB))
    assert kept_bytes(spill._fd) <= before - 15 * MB
    assert "is shorter than it was" in spill.read(100 * MB, memoryview(back))


def test_a_disk_that_is_full_is_told(small_place: Path) -> None:
    spill = SpillFile(str(small_place))
    assert spill.write(memoryview(bytes(100 * MB)), 0) == f"{small_place}: {os.strerror(errno.ENOSPC)}"


def test_a_disk_that_fails_is_told(tmp_path: Path) -> None:
    spill = SpillFile(str(tmp_path))
    os.dup2(os.open(tmp_path, os.O_RDONLY), spill._fd)
    assert spill.read(0, memoryview(bytearray(10))) == f"{tmp_path}: {os.strerror(errno.EISDIR)}"


def test_where_files_without_a_name_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    spill = SpillFile(str(tmp_path))
    assert spill.write(memoryview(b"abc"), 0) == ""
    assert list(tmp_path.iterdir()) == []


def ends(work: Work, count: int, woken: list[int]) -> list[Ended]:
    found: list[Ended] = []
    while len(found) < count:
        found += work.ended()
    return found


def test_orders_are_carried_out_in_threads(tmp_path: Path) -> None:
    arena = Arena(100 * MB, "", lambda: PLENTY)
    woken: list[int] = []
    work = Work(arena, SpillFile(str(tmp_path)), lambda: woken.append(1))
    grow = Grow(size_bytes=10 * MB)
    work.begin(grow)
    assert ends(work, 1, woken) == [Ended(grow, "")]
    arena.view(Extent(0, 5))[:] = b"hello"
    moves: list[Move] = [
        SpillOut(block=1, source=Extent(0, 5), target=4096),
        BringBack(block=1, source=Extent(4096, 5), target=8192),
        Punch(extent=Extent(4096, 4096)),
    ]
    for move in moves:
        work.begin(move)
    assert ends(work, 3, woken) == [Ended(move, "") for move in moves]
    assert bytes(arena.view(Extent(8192, 5))) == b"hello"
    shrink = Shrink(size_bytes=4096)
    work.begin(shrink)
    assert ends(work, 1, woken) == [Ended(shrink, "")]
    assert arena.size_bytes == 4096
    assert woken


def test_memory_ahead_of_need_is_provided_by_a_thread_that_gives_way_to_others() -> None:
    policies: list[int] = []

    def accounts() -> list[Account]:
        policies.append(os.sched_getscheduler(0))
        return PLENTY

    arena = Arena(100 * MB, "", accounts)
    work = Work(arena, None, lambda: None)
    for order, policy in (
        (Grow(size_bytes=6 * MB, ahead=True), os.SCHED_IDLE),
        (Grow(size_bytes=10 * MB), os.SCHED_OTHER),
    ):
        policies.clear()
        work.begin(order)
        assert ends(work, 1, []) == [Ended(order, "")]
        assert set(policies) == {policy}
        assert arena.size_bytes == kept_bytes(arena.fd) == order.size_bytes


def test_without_a_spill_file_moves_fail() -> None:
    work = Work(Arena(MB, "", lambda: PLENTY), None, lambda: None)
    move = SpillOut(block=1, source=Extent(0, 5), target=0)
    work.begin(move)
    assert ends(work, 1, []) == [Ended(move, "there is no spill file")]
