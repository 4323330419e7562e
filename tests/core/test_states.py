import itertools

import pytest

from fibernb.core.clients import Client
from fibernb.core.functions import Function
from fibernb.core.seats import Seat
from fibernb.core.states import (
    CLIENT_MOVES,
    SEAT_MOVES,
    TASK_MOVES,
    ClientState,
    IllegalTransition,
    SeatState,
    TaskState,
)
from fibernb.core.tasks import Group, Task, move_task
from fibernb.model import DEFAULT_OPTIONS, Call

ENDS = {TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELLED}


def test_what_has_ended_stays_ended() -> None:
    assert not any(old in ENDS for old, _ in TASK_MOVES)


def test_every_state_but_the_first_can_be_reached_and_left() -> None:
    for states, moves, ends in ((TaskState, TASK_MOVES, ENDS), (SeatState, SEAT_MOVES, set())):
        assert {new for _, new in moves} >= set(states) - {next(iter(states))} - {TaskState.WAITING}
        assert {old for old, _ in moves} == set(states) - ends


@pytest.mark.parametrize(("old", "new"), list(itertools.product(TaskState, repeat=2)))
def test_tasks_move_as_their_table_says(old: TaskState, new: TaskState) -> None:
    group = Group((5, b"f", None, b"", 0), Client(5, 1.0, None), Function(b"f", b"", "f"), DEFAULT_OPTIONS, None)
    task = Task(7, Call(7, b""), group, old)
    if (old, new) in TASK_MOVES:
        move_task(task, new)
        assert task.state is new
    else:
        with pytest.raises(IllegalTransition, match="0 attempts failed"):
            move_task(task, new)
        assert task.state is old


@pytest.mark.parametrize(("old", "new"), list(itertools.product(SeatState, repeat=2)))
def test_seats_move_as_their_table_says(old: SeatState, new: SeatState) -> None:
    seat = Seat(3, 1.0)
    seat.state = old
    if (old, new) in SEAT_MOVES:
        seat.move(new, 2.0)
        assert (seat.state, seat.since) == (new, 2.0)
    else:
        with pytest.raises(IllegalTransition, match=r"seat 3 cannot go .* its history: WANTED at 1.000"):
            seat.move(new, 2.0)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(ClientState, repeat=2)))
def test_clients_move_as_their_table_says(old: ClientState, new: ClientState) -> None:
    client = Client(5, 1.0, None)
    client.state = old
    if (old, new) in CLIENT_MOVES:
        client.move(new)
        assert client.attached == (new is ClientState.ATTACHED)
    else:
        with pytest.raises(IllegalTransition, match=r"client 5 cannot go from .* its history: ATTACHED"):
            client.move(new)
