from fibernb.core.timers import Timers


def test_fires_in_order_of_time_then_of_setting() -> None:
    timers = Timers()
    timers.set(("b", 1), 2.0)
    timers.set(("a", 1), 2.0)
    timers.set(("c", 1), 1.0)
    assert timers.next() == 1.0
    assert [timers.pop_due(2.0) for _ in range(4)] == [("c", 1), ("b", 1), ("a", 1), None]
    assert timers.next() is None


def test_is_not_due_before_its_time() -> None:
    timers = Timers()
    timers.set(("a", 1), 2.0)
    assert timers.pop_due(1.999) is None
    assert ("a", 1) in timers
    assert timers.pop_due(2.0) == ("a", 1)
    assert len(timers) == 0


def test_setting_again_moves_it() -> None:
    timers = Timers()
    timers.set(("a", 1), 1.0)
    timers.set(("a", 1), 3.0)
    assert timers.pop_due(2.0) is None
    assert timers.next() == 3.0


def test_set_default_keeps_what_is_set() -> None:
    timers = Timers()
    timers.set_default(("a", 1), 1.0)
    timers.set_default(("a", 1), 3.0)
    assert timers.next() == 1.0


def test_cancelled_timers_do_not_fire() -> None:
    timers = Timers()
    timers.set(("a", 1), 1.0)
    timers.cancel(("a", 1))
    timers.cancel(("never set", 1))
    assert timers.pop_due(5.0) is None


def test_cancelled_timers_are_not_waited_for() -> None:
    timers = Timers()
    timers.set(("a", 1), 1.0)
    timers.set(("b", 1), 2.0)
    timers.cancel(("a", 1))
    assert timers.next() == 2.0
