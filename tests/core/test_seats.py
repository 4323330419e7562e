import pytest

from fibernb.core.seats import Engine, IdleSeats, Seat
from fibernb.core.states import IllegalTransition, SeatState, TaskState
from tests.core import test_tasks


def engine() -> Engine:
    made = Engine(1, 0, "n")
    for position in range(3):
        made.line.append(test_tasks.task())
        made.line[-1].position = position
    return made


def test_the_first_of_a_line_may_have_begun() -> None:
    made = engine()
    assert [made.begun(task) for task in made.line] == [True, False, False]
    assert made.running() is made.line[0]


def test_signs_of_life_tell_more() -> None:
    made = engine()
    made.started = 1
    assert [made.begun(task) for task in made.line] == [True, True, False]
    assert made.running() is made.line[1]


def test_an_engine_is_usable_from_attaching_until_it_is_told_to_end() -> None:
    found = []
    for attached, doomed in ((False, ""), (True, ""), (True, "for a reason")):
        made = engine()
        made.attached, made.doomed = attached, doomed
        found.append(made.usable)
    assert found == [False, True, False]


def test_idle_seats_come_lowest_first() -> None:
    idle = IdleSeats()
    for rank in (5, 2, 9, 2):
        idle.add(rank)
    assert len(idle) == 3
    assert 9 in idle
    assert idle.lowest() == 2
    idle.discard(2)
    idle.discard(7)
    assert idle.lowest() == 5
    idle.discard(5)
    idle.add(5)
    assert idle.in_order() == [5, 9]
    idle.discard(5)
    idle.discard(9)
    assert idle.lowest() is None


def test_history_keeps_the_last_changes() -> None:
    seat = Seat(0, 1.0)
    for cycle in range(4):
        for state in (SeatState.STARTING, SeatState.LOST, SeatState.WANTED):
            seat.move(state, float(cycle))
    assert seat.history().count("->") == 7
    assert seat.history().endswith("STARTING at 3.000 -> LOST at 3.000 -> WANTED at 3.000")


def test_a_pinned_task_that_waits_for_inputs_holds_up_the_seat() -> None:
    seat = Seat(0, 1.0)
    assert not seat.pinned_ready()
    seat.pinned.append(test_tasks.task(rank=0))
    assert seat.pinned_ready()
    seat.pinned[0].state = TaskState.WAITING
    assert not seat.pinned_ready()


def test_what_has_not_begun_as_far_as_is_known() -> None:
    made = engine()
    assert made.not_begun() == 2
    made.started = 1
    assert made.not_begun() == 1


def test_moves_go_through_the_table() -> None:
    with pytest.raises(IllegalTransition, match=r"seat 0 cannot go from WANTED to IDLE; its history: WANTED at 1.000"):
        Seat(0, 1.0).move(SeatState.IDLE, 2.0)


def test_calls_that_a_client_had_sent_itself_have_begun() -> None:
    made = engine()
    made.adopted_from = 2
    assert [made.begun(task) for task in made.line] == [True, False, True]
    assert made.not_begun() == 1
