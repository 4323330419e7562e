import os
import signal
import threading
from collections.abc import Iterator

import pytest

from fibernb.client import interrupts
from fibernb.notebook import presses
from fibernb.notebook.presses import Bursts, Presses


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def long_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presses, "QUIET_S", 600.0)
    monkeypatch.setattr(interrupts, "QUIET_S", 600.0)


def test_two_interrupts_are_heard_and_no_more() -> None:
    with Presses():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                press()
        for _ in range(3):
            press()
    press()  # in the time that is quiet


def test_after_the_quiet_time_all_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presses, "QUIET_S", 0.0)
    with Presses(), pytest.raises(KeyboardInterrupt):
        press()
    with pytest.raises(KeyboardInterrupt):
        press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_next_cell_hears_interrupts_even_in_the_quiet_time() -> None:
    for _ in range(2):
        with Presses(), pytest.raises(KeyboardInterrupt):
            press()


def test_nothing_stays_where_nobody_pressed() -> None:
    with Presses():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_of_others_stay() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Presses():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_are_left_alone() -> None:
    seen: list[object] = []

    def look() -> None:
        with Presses():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_of_a_burst_the_first_is_heard() -> None:
    with Bursts():
        with pytest.raises(KeyboardInterrupt):
            press()
        press()
    press()  # in the time that is quiet


def test_one_burst_after_the_other_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presses, "QUIET_S", 0.0)
    with Bursts():
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_presses_within_bursts_keep_their_own_quiet_time() -> None:
    with Bursts():
        with Presses():
            pass
        with Presses(), pytest.raises(KeyboardInterrupt):
            press()
    press()
