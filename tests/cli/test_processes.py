"""The command line as users run it: processes with output, exit codes and no tracebacks for a user's mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.live import processes, short_directory, wait_until


@pytest.fixture
def base() -> Iterator[Path]:
    """A runtime directory; nothing may be left in it."""
    with short_directory() as path:
        yield path / "run"
        wait_until(lambda: not processes(str(path)), "no process is left")
        assert list((path / "run").glob("*")) == []


def fibernb(base: Path, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fibernb", *arguments],
        env={**os.environ, "FIBERNB_RUNTIME_DIR": str(base), "FIBERNB_PRELOAD": ""},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def test_demo(base: Path) -> None:
    ran = fibernb(base, "demo", "-n", "2", "--tasks", "4", "--json")
    assert ran.returncode == 0, ran.stderr
    facts = json.loads(ran.stdout)
    assert abs(facts["pi"] - 3.1416) < 0.02
    assert facts["engines"] in (1, 2)


SCRIPT = """
import sys
import fibernb as fnb

@fnb.remote
def double(x):
    return 2 * x

print(sys.argv[1:], fnb.get([double.remote(x) for x in range(4)]))
if "--fail" in sys.argv:
    raise RuntimeError("as asked")
sys.exit(3)
"""


def test_run_gives_a_script_a_cluster_and_its_exit_code(base: Path) -> None:
    script = base.parent / "script.py"
    script.write_text(SCRIPT)
    ran = fibernb(base, "run", "-n", "2", str(script), "--", "-n", "x")
    assert (ran.returncode, ran.stdout) == (3, "['-n', 'x'] [0, 2, 4, 6]\n"), ran.stderr


def test_run_shows_the_scripts_own_frames_only(base: Path) -> None:
    script = base.parent / "script.py"
    script.write_text(SCRIPT)
    ran = fibernb(base, "run", "-n", "1", str(script), "--fail")
    assert ran.returncode == 1
    assert ran.stderr.count("File ") == 1
    assert "script.py" in ran.stderr
    assert ran.stderr.endswith("RuntimeError: as asked\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "/no/such/script.py"],
        ["run", "-n", "-3", __file__],
        ["status", "nobody"],
        ["demo", "-n", "1000000000"],
        ["hub", "--directory=/no/such/directory"],
        ["node", "--directory=/no/such/directory"],
    ],
)
def test_mistakes_make_a_line_and_not_a_traceback(base: Path, arguments: list[str]) -> None:
    ran = fibernb(base, *arguments)
    assert ran.returncode == 1, ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stderr.strip()


def test_more_seats_than_files_allow_are_refused_before_anything_starts(base: Path) -> None:
    ran = subprocess.run(
        ["bash", "-c", f"ulimit -n 120; exec {sys.executable} -m fibernb demo -n 50"],
        env={**os.environ, "FIBERNB_RUNTIME_DIR": str(base)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "18 that cluster" in ran.stderr
    assert "120 open files are allowed (ulimit -Hn)" in ran.stderr


def test_a_reader_that_has_seen_enough(base: Path) -> None:
    command = f"{sys.executable} -m fibernb doctor | true"
    ran = subprocess.run(
        ["bash", "-c", command], env={**os.environ, "FIBERNB_RUNTIME_DIR": str(base)}, capture_output=True, check=False
    )
    assert b"Traceback" not in ran.stderr
