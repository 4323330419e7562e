"""Interrupts that come in the middle of a message, or right after one that has ended a cell."""

import signal
import threading
from collections.abc import Iterator

import pytest

from fibernb.client import interrupts
from fibernb.client.interrupts import Deferral, stay_quiet


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_for_the_end_and_wakes() -> None:
    woken: list[int] = []
    deferral = Deferral(lambda: woken.append(1))
    seen: list[object] = []

    def work() -> None:
        with deferral:
            press()
            seen.extend([deferral.pending(), *woken])

    with pytest.raises(KeyboardInterrupt):
        work()
    assert seen == [True, 1]
    with pytest.raises(KeyboardInterrupt):
        press()  # of a program: what follows is heard as well


def test_in_a_notebook_those_that_follow_at_once_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "in_notebook", True)
    monkeypatch.setattr(interrupts, "QUIET_S", 600.0)
    with pytest.raises(KeyboardInterrupt), Deferral(lambda: None):
        press()
    press()
    with Deferral(lambda: None):
        press()
    press()


def test_after_a_moment_all_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "QUIET_S", 0.0)
    stay_quiet()
    with pytest.raises(KeyboardInterrupt):
        press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_of_others_and_other_threads_are_left_alone() -> None:
    thread = threading.Thread(target=stay_quiet)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stay_quiet()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
