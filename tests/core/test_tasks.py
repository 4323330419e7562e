import pytest

from fibernb.core.clients import Client
from fibernb.core.functions import Function
from fibernb.core.states import IllegalTransition, TaskState
from fibernb.core.tasks import ANY_RANK, Group, Task, may_try_again, move_task
from fibernb.model import DEFAULT_OPTIONS, Call, Rank, Resources, TaskId, TaskOptions


def group(options: TaskOptions = DEFAULT_OPTIONS, parent: TaskId | None = None) -> Group:
    client = Client(5, 60.0, None)
    return Group((5, b"f", parent, b"", 0), client, Function(b"f", b"code", "f"), options, parent)


def task(options: TaskOptions = DEFAULT_OPTIONS, rank: Rank = ANY_RANK) -> Task:
    return Task(7, Call(7, b""), group(options), rank=rank)


def test_a_group_knows_what_its_calls_need() -> None:
    assert (group().plain, group().alone, group().tied) == (True, False, False)
    assert group(TaskOptions(max_retries=0)).alone
    special = group(TaskOptions(resources=Resources(milli_gpus=1)))
    assert not special.plain
    assert not special.alone
    assert group(TaskOptions(num_returns=2)).tied
    assert group(parent=3).tied
    assert group(parent=3).members == {}


def test_a_group_is_called_as_its_options_say() -> None:
    assert group().title == "f"
    assert group(TaskOptions(name="fit")).title == "fit"


def test_queued() -> None:
    made = group()
    assert not made.queued
    made.suspects.append(task())
    assert made.queued


def test_moves_go_through_the_table() -> None:
    made = task()
    move_task(made, TaskState.SENT)
    move_task(made, TaskState.FINISHED)
    with pytest.raises(IllegalTransition, match="task 0x7 cannot go from FINISHED to SENT; its history: engine 0"):
        move_task(made, TaskState.SENT)


def test_retries() -> None:
    made = task(TaskOptions(max_retries=1))
    assert may_try_again(made)
    made.attempts = 1
    assert not may_try_again(made)


def test_negative_retries_have_no_end() -> None:
    made = task(TaskOptions(max_retries=-1))
    made.attempts = 1000
    assert may_try_again(made)


def test_pinned_tasks_are_not_tried_again() -> None:
    assert not may_try_again(task(rank=2))
