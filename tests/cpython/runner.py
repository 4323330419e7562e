"""Runs groups of CPython's tests, each group in a process and a cluster of its own, each test against a time limit.

A test that does not end in time has failed. Its process and everything of its cluster are killed, and the rest of the
group goes on in a new one.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil

from tests.cpython.group import tests_of

ROOT: Final = Path(__file__).resolve().parents[2]
GROUP_SIZE: Final = 20  # tests, about: a group has the cost of starting and ending a cluster
LOOK_EVERY_S: Final = 0.1
EMPTY_WITHIN_S: Final = 15.0
STARTING_S: Final = 30.0  # before the first test of a group begins, and after its last


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one test went."""

    test: str
    outcome: str  # "passed", "failed", "skipped"
    detail: str = ""
    seconds: float = 0.0


def names_of(module_name: str) -> list[str]:
    """All tests of a module, as ``Class.test``, in order."""
    return sorted(tests_of(importlib.import_module(module_name)))


def run(module_name: str, tests: Iterable[str], *, jobs: int, timeout_s: float) -> Iterator[Outcome]:
    """Run tests, some groups at a time; their outcomes as the groups end."""
    with ThreadPoolExecutor(jobs) as pool:
        for outcomes in pool.map(lambda group: Group(module_name, group, timeout_s).run(), grouped(tests)):
            yield from outcomes


def grouped(tests: Iterable[str]) -> list[list[str]]:
    """Tests in groups of some size, the largest first. Those of one class stay together, since they share fixtures."""
    classes: dict[str, list[str]] = {}
    for test in tests:
        classes.setdefault(test.partition(".")[0], []).append(test)
    groups: list[list[str]] = []
    for of_class in sorted(classes.values(), key=len, reverse=True):
        if not groups or len(groups[-1]) >= GROUP_SIZE:
            groups.append([])
        groups[-1] += of_class
    return groups


class Group:
    """Tests that run one after the other, in one process as long as none hangs."""

    def __init__(self, module_name: str, tests: list[str], timeout_s: float) -> None:
        self._module_name = module_name
        self._waiting = list(tests)
        self._timeout_s = timeout_s
        self._outcomes: list[Outcome] = []

    def run(self) -> list[Outcome]:
        while self._waiting:
            directory = Path(tempfile.mkdtemp(prefix="fnbcp-"))
            try:
                self._run_in(directory)
            finally:
                end_all(directory)
                shutil.rmtree(directory, ignore_errors=True)
        return self._outcomes

    def _run_in(self, directory: Path) -> None:
        report, errors = directory / "report", directory / "errors"
        report.touch()
        with errors.open("wb") as stream:
            process = self._start(directory, report, stream)
        try:
            running = self._follow(process, report)
        finally:
            kill(process)
        told = errors.read_text(errors="replace")[-6000:]
        if running is not None:
            self._end(Outcome(test=running, outcome="failed", detail=f"it did not end, or ended its process\n{told}"))
        elif process.returncode != 0 and self._waiting:
            for test in list(self._waiting):
                self._end(Outcome(test=test, outcome="failed", detail=f"its group could not run\n{told}"))
        elif left := leftovers(directory):
            last = self._outcomes[-1]
            self._outcomes[-1] = msgspec.structs.replace(last, outcome="failed", detail=f"left behind: {left}")

    def _start(self, directory: Path, report: Path, errors: Any) -> subprocess.Popen[bytes]:
        work = directory / "work"
        work.mkdir()
        arguments = [self._module_name, str(report), str(self._timeout_s), *self._waiting]
        return subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.cpython.group", *arguments],
            cwd=work,
            env=environment(directory),
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
        )

    def _follow(self, process: subprocess.Popen[bytes], report: Path) -> str | None:
        """Read the report until the process has ended, or a test's time is over: the test that then was running."""
        running, deadline, position = None, time.monotonic() + STARTING_S, 0
        while True:
            has_ended = process.poll() is not None
            with report.open(encoding="utf-8") as lines:
                lines.seek(position)
                text = lines.read()
            whole = text[: text.rfind("\n") + 1]
            position += len(whole.encode())
            for line in map(json.loads, whole.splitlines()):
                running = self._take(line, running)
                deadline = time.monotonic() + (STARTING_S if running is None else self._timeout_s)
            if has_ended:
                return running
            if time.monotonic() > deadline:
                return running or (self._waiting[0] if self._waiting else self._blame_the_end())
            time.sleep(LOOK_EVERY_S)

    def _take(self, line: dict[str, Any], running: str | None) -> str | None:
        if "begin" in line:
            return str(line["begin"])
        if "end" in line:
            fields = {key: line[key] for key in ("outcome", "detail", "seconds")}
            self._end(Outcome(test=line["end"], **fields))
            return None
        self._fail_with_fixture(line["fixture"], line["detail"])
        return running

    def _fail_with_fixture(self, fixture: str, detail: str) -> None:
        """A fixture before the tests takes those that wait with it; one after them, the last that ran."""
        if fixture.startswith("tearDown"):
            last = self._outcomes.pop() if self._outcomes else Outcome(test=self._waiting.pop(0), outcome="failed")
            self._outcomes.append(msgspec.structs.replace(last, outcome="failed", detail=f"{fixture}\n{detail}"))
            return
        outcome = "skipped" if detail.startswith("skipped") else "failed"
        for test in list(self._waiting):
            self._end(Outcome(test=test, outcome=outcome, detail=f"{fixture}\n{detail}"))

    def _blame_the_end(self) -> str:
        return self._outcomes.pop().test

    def _end(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        if outcome.test in self._waiting:
            self._waiting.remove(outcome.test)


def environment(directory: Path) -> dict[str, str]:
    """Variables of a group's process: a runtime directory of its own, and a short lease: nothing stays for long."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FIBERNB_RUNTIME_DIR": str(directory),
        "FIBERNB_WORKERS": "2",
        "FIBERNB_LEASE_S": "5",
        "FIBERNB_PROGRESS": "0",
        "FIBERNB_ENV_PASSTHROUGH": "CPYTHON_*",
    }


def processes_of(directory: Path) -> list[psutil.Process]:
    """The processes of FiberNB whose runtime directory this is."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(directory) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def leftovers(directory: Path) -> list[str]:
    """What of a group that has ended is still there when its time for ending is over."""
    deadline = time.monotonic() + EMPTY_WITHIN_S
    while left := processes_of(directory):
        if time.monotonic() > deadline:
            return [" ".join(process.cmdline()) for process in left]
        time.sleep(LOOK_EVERY_S)
    return []


def end_all(directory: Path) -> None:
    """Kill what a group has left behind."""
    for process in processes_of(directory):
        with contextlib.suppress(psutil.Error):
            process.kill()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a group's process, and what else is in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
