"""The frame of the hub process: what it says to who waits for it, and what it leaves behind."""

from __future__ import annotations

import logging
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fibernb import config as configuration
from fibernb.config import Config
from fibernb.errors import ConfigError
from fibernb.hub import logs, place, process
from fibernb.hub.spawn import READY, spawn_node


class FakeHub:
    """Ends as it is told."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.ended = False
        self.reason = ""

    def run(self) -> str:
        if self.failure is not None:
            raise self.failure
        return "done"

    def end(self) -> None:
        self.ended = True

    def stop(self, reason: str) -> None:
        self.reason = reason

    def child_ended(self) -> None:
        self.ended = True


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "alpha"
    made.mkdir()
    (made / place.LOG_NAME).write_text("")
    return made


def served(directory: Path, hub: FakeHub | Exception, monkeypatch: pytest.MonkeyPatch) -> tuple[int, bytes]:
    """The exit code, and what was said on the pipe."""

    def set_up(*_: object) -> FakeHub:
        if isinstance(hub, Exception):
            raise hub
        return hub

    monkeypatch.setattr(process, "_set_up", set_up)
    heard, says = os.pipe()
    try:
        code = process.serve(directory, resume=False, node_pid=0, lock=None, says=says)
        return code, os.read(heard, 1000)
    finally:
        os.close(heard)


def test_in_order(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = FakeHub()
    assert served(directory, hub, monkeypatch) == (0, READY)
    assert hub.ended
    assert not directory.exists()


def test_a_failure_leaves_everything_for_who_resumes(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = FakeHub(ZeroDivisionError("a bug"))
    assert served(directory, hub, monkeypatch) == (1, READY)
    assert not hub.ended
    assert directory.exists()


def test_what_keeps_it_from_starting_is_said(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert served(directory, ConfigError("no such thing"), monkeypatch) == (1, b"no such thing")
    assert served(directory, OSError(28, "No space left on device"), monkeypatch)[1].endswith(
        b"No space left on device"
    )


def test_nobody_may_be_waiting(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_set_up", lambda *_: FakeHub())
    heard, says = os.pipe()
    os.close(heard)
    assert process.serve(directory, resume=False, node_pid=0, lock=None, says=says) == 0
    os.close(says)


def test_a_second_hub_gives_up(directory: Path) -> None:
    configuration.save(Config(), directory)
    lock = place.take_lock(directory)
    assert lock is not None
    assert process.serve(directory, resume=False, node_pid=0, lock=None, says=None) == 1
    os.close(lock)
    assert directory.exists()


def test_signals_reach_the_hub() -> None:
    hub: Any = FakeHub()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGCHLD)}
    try:
        process._handle_signals(hub)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGCHLD)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert hub.reason == "the hub was told to end (SIGTERM)"
    assert hub.ended


def test_spawning_where_there_is_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with pytest.raises(OSError, match="No such file"):
        spawn_node("/tmp")


def serve_failing_hub(directory: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, FakeHub]:
    hub = FakeHub(RuntimeError("a flaw"))
    monkeypatch.setattr(process, "_set_up", lambda *_: hub)
    return process.serve(directory, resume=True, node_pid=0, lock=None, says=None), hub


def test_hubs_that_fail_in_a_row_end_the_cluster(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(process.MAX_FAILURES - 1):
        code, hub = serve_failing_hub(directory, monkeypatch)
        assert (code, hub.ended) == (1, False)
    code, hub = serve_failing_hub(directory, monkeypatch)
    assert (code, hub.ended, directory.exists()) == (0, True, False)
    assert "again and again" in hub.reason
    assert "a flaw" in hub.reason


def test_hubs_that_fail_now_and_then_are_started_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SETTLED_S", 0.0)
    for _ in range(2 * process.MAX_FAILURES):
        assert serve_failing_hub(directory, monkeypatch)[0] == 1


def test_a_failing_hub_whose_directory_has_gone_ends_the_cluster(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(directory)
    monkeypatch.setattr(logs, "set_up", lambda _: None)
    code, hub = serve_failing_hub(directory, monkeypatch)
    assert (code, hub.ended) == (0, True)
