"""Who reads, and when the background thread sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fibernb.client.turns import Turns

PATIENCE_S = 20.0


class Standing:
    """A background thread that stands by while the main thread leads."""

    def __init__(self, turns: Turns, pause_s: float | None = None) -> None:
        self.asks = threading.Event()
        self.ended = threading.Event()
        self._turns = turns
        self._pause_s = pause_s
        self._led = turns.led
        self._thread = threading.Thread(target=self._stand_by)
        self._thread.start()

    def _patience_s(self) -> float | None:
        self.asks.set()
        return self._pause_s

    def _stand_by(self) -> None:
        self._turns.stand_by(self._led, self._patience_s)
        self.ended.set()

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert self.ended.is_set()


@pytest.fixture
def turns() -> Turns:
    return Turns(threading.RLock())


@pytest.mark.parametrize("end", [Turns.leave, Turns.rouse], ids=["leave", "rouse"])
def test_standing_by_ends_when_the_reader_stops_or_somebody_calls(turns: Turns, end: Callable[[Turns], None]) -> None:
    assert turns.take()
    standing = Standing(turns)
    assert standing.asks.wait(PATIENCE_S)
    assert not standing.ended.wait(0.05)
    end(turns)
    standing.join()
    assert not turns.sleeps


def test_standing_by_ends_after_a_while_if_there_is_something_to_do(turns: Turns) -> None:
    assert turns.take()
    Standing(turns, pause_s=0.01).join()


def test_nobody_stands_by_when_nobody_reads(turns: Turns) -> None:
    Standing(turns).join()


def test_nobody_stands_by_for_another_reader_than_the_one_he_has_seen(turns: Turns) -> None:
    assert turns.take()
    seen = turns.led
    turns.leave()
    assert turns.take()
    turns.stand_by(seen, lambda: None)
    assert turns.led != seen


def test_the_background_takes_the_lead_back_only_when_it_is_free(turns: Turns) -> None:
    assert turns.take()
    taken: list[bool] = []
    thread = threading.Thread(target=lambda: taken.append(turns.take_in_background()))
    thread.start()
    thread.join(PATIENCE_S)
    assert taken == [False]
