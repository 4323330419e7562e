from __future__ import annotations

import os
import select

import pytest

from fibernb.transport.waker import Waker


@pytest.fixture(params=["eventfd", "pipe"])
def waker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Waker:
    if request.param == "pipe":
        monkeypatch.delattr(os, "eventfd", raising=False)
    return Waker()


def readable(waker: Waker) -> bool:
    return bool(select.select([waker.fileno()], [], [], 0)[0])


def test_it_is_readable_from_wake_to_clear(waker: Waker) -> None:
    assert not readable(waker)
    waker.clear()
    for _ in range(3):
        waker.wake()
        waker.wake()
        assert readable(waker)
        waker.clear()
        assert not readable(waker)
    waker.close()


def test_waking_never_waits(waker: Waker) -> None:
    for _ in range(20_000):  # a pipe is full before
        waker.wake()
    waker.clear()
    assert not readable(waker)
    waker.close()


def test_a_full_eventfd_is_awake() -> None:
    waker = Waker()
    os.eventfd_write(waker.fileno(), 2**64 - 2)
    waker.wake()
    assert readable(waker)
    waker.close()


def test_a_closed_one_does_not_touch_its_descriptor(waker: Waker) -> None:
    waker.close()
    waker.close()
    with open(os.devnull, "wb"):  # may have taken the number
        waker.wake()
