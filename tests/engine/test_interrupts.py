"""The handler of SIGINT, without an engine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from fibernb.engine.interrupts import Interrupts, Leave


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    before = signal.getsignal(signal.SIGINT)
    made = Interrupts()
    made.install()
    yield made
    signal.signal(signal.SIGINT, before)


def test_only_the_task_that_is_meant_is_interrupted(interrupts: Interrupts) -> None:
    interrupts.interrupt(5)
    interrupts.armed = 6
    interrupts.signal()
    assert not interrupts.unheard
    with pytest.raises(KeyboardInterrupt):
        interrupts.interrupt(6)
    assert (interrupts.struck, interrupts.target, interrupts.strikes) == (6, 0, 1)
    interrupts.signal()


def test_signals_from_elsewhere_are_ignored(interrupts: Interrupts) -> None:
    for interrupts.armed in (0, 6):
        os.kill(os.getpid(), signal.SIGINT)
    assert interrupts.strikes == 0


def test_an_engine_that_is_a_process_is_open_to_all(interrupts: Interrupts) -> None:
    before = signal.getsignal(signal.SIGTERM)
    interrupts.open()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    signal.signal(signal.SIGTERM, before)
    os.kill(os.getpid(), signal.SIGINT)
    interrupts.armed = 6
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    interrupts.leave()


def test_leaving_waits_for_the_end_of_the_task(interrupts: Interrupts) -> None:
    interrupts.armed = 6
    interrupts.leave()
    interrupts.armed = 0
    interrupts.signal()
    heard_at_once = not interrupts.unheard
    interrupts.waiting = True
    assert heard_at_once
    assert interrupts.unheard
    with pytest.raises(Leave):
        interrupts.signal()


def test_a_shield_puts_an_interrupt_off(interrupts: Interrupts) -> None:
    interrupts.armed = 6
    done = []

    def shielded() -> None:
        with interrupts.shield():
            interrupts.interrupt(6)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        shielded()
    assert done == [1]
    with interrupts.shield():
        interrupts.interrupt(7)
    assert interrupts.armed == 6


def test_a_shield_in_another_thread_changes_nothing(interrupts: Interrupts) -> None:
    interrupts.armed = 6
    seen = []

    def shielded() -> None:
        with interrupts.shield():
            seen.append(interrupts.armed)

    thread = threading.Thread(target=shielded)
    thread.start()
    thread.join()
    assert seen == [6]
