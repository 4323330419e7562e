"""What limits the number of seats, read from a system that the test makes up."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from fibernb.config import Config
from fibernb.hub import limits

ROOMY = {
    "loadavg": "0.1 0.1 0.1 1/300 4711",
    "sys/kernel/pid_max": "4000000",
    "sys/kernel/threads-max": "4000000",
    "meminfo": "MemTotal: 99 kB\nMemAvailable: 1000000000 kB",
    "self/cgroup": "0::/user/me",
}


class System:
    """Files as in /proc and /sys/fs/cgroup, and resource limits."""

    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.groups = root / "cgroup"
        self.files = 1_000_000
        self.processes = resource.RLIM_INFINITY
        for name, text in ROOMY.items():
            self.write(self.proc / name, text)

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def getrlimit(self, which: int) -> tuple[int, int]:
        value = self.files if which == resource.RLIMIT_NOFILE else self.processes
        return value, value


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    made = System(tmp_path)
    monkeypatch.setattr(limits, "PROC", made.proc)
    monkeypatch.setattr(limits, "CGROUPS", made.groups)
    monkeypatch.setattr(resource, "getrlimit", made.getrlimit)
    monkeypatch.setattr("os.getuid", lambda: 1000)
    return made


def found(config: Config | None = None) -> limits.Limit:
    return limits.seat_limit(config or Config())


def test_the_administrators_cap(system: System) -> None:
    assert found(Config(max_workers=8)) == (8, "the administrator allows 8 (max_workers)")


def test_open_files(system: System) -> None:
    system.files = 1564
    assert found() == (500, "1564 open files are allowed (ulimit -Hn)")
    system.files = 10
    assert found().seats == 0


def test_processes_of_the_user(system: System) -> None:
    system.processes = 632
    assert found() == (100, "632 processes are allowed (ulimit -u)")


def test_threads_of_the_system(system: System) -> None:
    system.write(system.proc / "sys/kernel/pid_max", "932")
    assert found() == (200, "the system allows 932 threads (kernel.pid_max)")


def test_threads_of_the_container(system: System) -> None:
    (system.groups / "user/me").mkdir(parents=True)
    system.write(system.groups / "user/pids.max", "200")
    system.write(system.groups / "user/pids.current", "18")
    system.write(system.groups / "user/me/pids.max", "max")
    assert found() == (50, "this container allows 200 threads (pids.max)")


def test_memory_of_the_system(system: System) -> None:
    system.write(system.proc / "meminfo", "MemAvailable: 400000 kB")
    assert found() == (102, "409 MB of memory are free")


def test_memory_of_the_container_counts_what_it_can_give_back(system: System) -> None:
    system.write(system.groups / "user/me/memory.max", "500000000")
    system.write(system.groups / "user/me/memory.current", "400000000")
    system.write(system.groups / "user/me/memory.stat", "anon 1\ninactive_file 100000000")
    assert found() == (50, "this container is allowed 500 MB of memory")


def test_the_first_version_of_control_groups(system: System) -> None:
    system.write(system.proc / "self/cgroup", "9:memory:/box\n8:cpu,pids:/box\n0::/")
    system.write(system.groups / "memory/box/memory.limit_in_bytes", "400000000")
    assert found() == (100, "this container is allowed 400 MB of memory")


def test_a_system_that_tells_nothing_limits_nothing_but_files(
    system: System, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(limits, "PROC", tmp_path / "nothing")
    assert "open files" in found().reason


def test_the_real_system_can_be_read() -> None:
    limit = limits.seat_limit(Config())
    assert limit.seats > 0
    assert limit.reason


def test_the_file_limit_is_raised_to_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda which, pair: asked.append(pair))
    assert limits.raise_file_limit() == 4096
    assert asked == [(4096, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda which: (4096, 4096))
    assert limits.raise_file_limit() == 4096
    assert len(asked) == 1


def test_a_file_limit_that_cannot_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(which: int, pair: tuple[int, int]) -> None:
        raise ValueError

    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert limits.raise_file_limit() == 256
