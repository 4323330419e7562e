"""Things to do later come in the order in which they are due."""

from __future__ import annotations

from fibernb.hub.timers import Timers


def test_nothing_is_due_at_first() -> None:
    timers = Timers()
    assert timers.next_due() is None
    assert timers.pop_due(1e9) is None


def test_what_is_due_comes_in_order_and_once() -> None:
    timers, done = Timers(), list[str]()
    timers.at(2.0, lambda: done.append("late"))
    timers.at(1.0, lambda: done.append("first"))
    timers.at(1.0, lambda: done.append("second"))
    assert timers.next_due() == 1.0
    while (action := timers.pop_due(1.5)) is not None:
        action()
    assert done == ["first", "second"]
    assert timers.next_due() == 2.0


def test_what_becomes_due_meanwhile_is_taken_too() -> None:
    timers, done = Timers(), list[str]()
    timers.at(1.0, lambda: timers.at(1.0, lambda: done.append("more")))
    while (action := timers.pop_due(1.0)) is not None:
        action()
    assert done == ["more"]
