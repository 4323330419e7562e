"""What is told of an engine's end."""

from __future__ import annotations

import errno
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from fibernb.engine import deaths, system
from fibernb.engine.children import Children, ForkRefused
from fibernb.wire.handshake import Seat


def test_the_last_lines_of_both_logs_from_where_the_engine_began(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    first = deaths.open_logs(tmp_path, 3)
    assert deaths.last_output(first) == ""
    python, native = map(Path, first.paths)
    python.write_text("earlier\n")
    native.write_text("earlier native\n")
    logs = deaths.open_logs(tmp_path, 3)
    with python.open("a") as file:
        file.writelines(f"line {n}\n" for n in range(100))
    with native.open("a") as file:
        file.write("Segmentation fault")
    lines = deaths.last_output(logs).splitlines()
    assert lines == [*(f"line {n}" for n in range(80, 100)), "Segmentation fault"]


def test_of_a_crash_the_beginning_of_the_report_counts(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    logs = deaths.open_logs(tmp_path, 0)
    frames = [f'  File "user.py", line {n} in f\n' for n in range(50)]
    ours = f'  File "{Path(deaths.__file__).parent}/runner.py", line 1 in run\n'
    Path(logs.paths[1]).write_text("".join(["before\n", "Fatal Python error: Aborted\n", "\n", ours, *frames]))
    lines = deaths.last_output(logs).splitlines(keepends=True)
    assert lines == ["Fatal Python error: Aborted\n", "\n", *frames[:18]]


def test_long_lines_are_cut(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    logs = deaths.open_logs(tmp_path, 0)
    Path(logs.paths[0]).write_text("x" * 100_000)
    assert len(deaths.last_output(logs)) <= deaths.LAST_BYTES + 1


@pytest.mark.parametrize(
    ("exit_code", "ours", "oom_kills", "text"),
    [(1, False, 0, "MB"), (-signal.SIGKILL, True, 1, "MB"), (-signal.SIGKILL, False, 0, "killed from outside")],
)
def test_evidence(exit_code: int, ours: bool, oom_kills: int, text: str) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = deaths.evidence(exit_code, usage, ours, oom_kills)
    assert found.startswith("peak memory ")
    assert found.endswith(text)


def test_evidence_of_memory_that_was_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    monkeypatch.setattr(system, "memory_limit_bytes", lambda: 512_000_000)
    found = deaths.evidence(-signal.SIGKILL, usage, False, 2)
    assert "the kernel ran out of memory (its limit here is 512 MB)" in found


@pytest.mark.parametrize(("code", "what"), [(errno.EAGAIN, "processes"), (errno.ENOMEM, "memory")])
def test_a_fork_that_fails_says_which_limit_it_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, what: str
) -> None:
    def refuse() -> int:
        raise OSError(code, os.strerror(code))

    prepared: Any = None
    monkeypatch.setattr(os, "fork", refuse)
    monkeypatch.setattr(system, "fork_limits", lambda: "processes of this user (ulimit -u): 100")
    with pytest.raises(ForkRefused, match=rf"no {what} for another engine .*ulimit -u\): 100"):
        Children(tmp_path, prepared).fork(Seat(engine=1, rank=1), [])


def test_limits_and_counters_of_either_version_of_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"memory.max": "1000000", "pids.max": "max", "memory.events": "low 0\noom 3\noom_kill 2"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(system, "_control_groups", lambda _: [tmp_path / "missing", tmp_path])
    assert system.memory_limit_bytes() == 1_000_000
    assert system.out_of_memory_kills() == 2
    assert "memory of the control group in bytes: 1000000" in system.fork_limits()
    assert "pids" not in system.fork_limits()
    monkeypatch.setattr(system, "_control_groups", lambda _: [])
    assert system.memory_limit_bytes() is None
    assert system.out_of_memory_kills() == 0
