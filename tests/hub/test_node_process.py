"""A node process as its hub sees it: a child, or after a restart of the hub an orphan."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fibernb.hub.node_process import LocalNode
from tests.hub.live import is_running, wait_until

COMMAND = [sys.executable, "-S", "-c", "import sys; sys.stdin.readline()  # fibernb"]


def spawn_sleeper() -> int:
    return os.posix_spawn(COMMAND[0], [*COMMAND[:-1], "import time; time.sleep(60)  # fibernb"], os.environ)


def spawn_failure() -> int:
    return os.posix_spawn(COMMAND[0], [*COMMAND[:-1], "raise SystemExit(3)"], os.environ)


@pytest.fixture
def node() -> Iterator[LocalNode]:
    made = LocalNode(spawn_sleeper)
    yield made
    made.kill()


def test_none_was_started() -> None:
    assert LocalNode(spawn_sleeper).ended() == "was not started"
    LocalNode(spawn_sleeper).kill()


def test_it_lives_until_it_is_killed(node: LocalNode) -> None:
    node.start()
    assert node.pid > 0
    assert node.ended() is None
    node.kill()
    assert node.ended() == "was killed by signal 9"
    assert not is_running(node.pid)
    node.kill()


def test_it_can_be_started_again(node: LocalNode) -> None:
    node.start()
    first = node.pid
    node.kill()
    node.start()
    assert node.pid != first
    assert node.ended() is None


def test_its_exit_code_is_told() -> None:
    node = LocalNode(spawn_failure)
    node.start()
    assert node.ended_within(10.0) == "exited with code 3"


def test_waiting_for_its_end_has_a_limit(node: LocalNode) -> None:
    node.start()
    assert node.ended_within(0.02) is None


def test_an_orphan_is_watched_by_its_number() -> None:
    orphan = subprocess.Popen([*COMMAND[:-1], "import time; time.sleep(60)  # fibernb"])
    node = LocalNode(spawn_sleeper, orphan.pid, ours=False)
    wait_until(lambda: is_running(orphan.pid), "it runs")
    assert node.ended() is None
    node.kill()
    assert node.ended() == "ended"
    assert orphan.wait() == -signal.SIGKILL
