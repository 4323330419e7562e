"""What wakes the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fibernb.notebook.heartbeat import Heartbeat


class Loop:
    """Keeps the one timer that is set."""

    def __init__(self) -> None:
        self.timer: Callable[[], Any] | None = None

    def call_later(self, _delay_s: float, callback: Callable[..., Any], *args: Any) -> Loop:
        self.timer = lambda: callback(*args)
        return self

    def cancel(self) -> None:
        self.timer = None


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: made)
    return made


def test_it_beats_while_a_cell_runs(loop: Loop) -> None:
    heartbeat = Heartbeat()
    heartbeat.begin_cell()
    for _ in range(3):
        assert loop.timer is not None
        loop.timer()
    heartbeat.end_cell()
    assert loop.timer is None
    heartbeat.end_cell()


def test_without_a_loop_and_in_other_threads_nothing_beats(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeat = Heartbeat()
    thread = threading.Thread(target=heartbeat.begin_cell)
    thread.start()
    thread.join()
    assert loop.timer is None
    monkeypatch.undo()
    heartbeat.begin_cell()
    assert loop.timer is None
