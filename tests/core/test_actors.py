import pytest

from fibernb.core.actors import Actor, CallQueue
from fibernb.core.clients import Client
from fibernb.core.functions import Function
from fibernb.core.messages import CreateActor
from fibernb.core.states import ActorState, IllegalTransition, TaskState
from fibernb.core.tasks import Group, Task
from fibernb.model import DEFAULT_OPTIONS, ActorOptions, Call

FUNCTION = Function(b"f", b"", "f")
ALL = 10**9


class Callers:
    """A queue and groups of calls for it."""

    def __init__(self) -> None:
        self.woken = 0
        self.queue = CallQueue(self.wake)
        self.next_id = 1

    def wake(self) -> None:
        self.woken += 1

    def group(self, client: int) -> Group:
        return Group((client, b"", None, b"", 9), Client(client, 1.0, None), FUNCTION, DEFAULT_OPTIONS, None, 9)

    def line_up(self, group: Group, count: int, state: TaskState = TaskState.QUEUED) -> list[Task]:
        tasks = [Task(self.next_id + n, Call(self.next_id + n, b"x"), group, state) for n in range(count)]
        self.next_id += count
        self.queue.line_up(tasks)
        if state is TaskState.QUEUED:
            self.queue.push_many(group, tasks)
        return tasks

    def take(self, count: int = 100, size_bytes: int = ALL) -> list[int]:
        tasks = self.queue.take(count, size_bytes, lambda task: len(task.call.args))
        for task in tasks:
            task.engine = 1
        return [task.id for task in tasks]


def test_callers_take_turns_and_each_keeps_its_order() -> None:
    callers = Callers()
    callers.line_up(callers.group(1), 3)
    callers.line_up(callers.group(2), 1)
    assert callers.queue.count == 4
    assert [callers.take(2), callers.take(2), callers.take(2), callers.take(2)] == [[1, 2], [4], [3], []]
    assert callers.queue.count == 0
    assert callers.queue.is_empty()
    assert callers.woken == 2


def test_a_batch_is_of_one_group_and_not_too_large() -> None:
    callers = Callers()
    callers.line_up(callers.group(1), 2)
    callers.line_up(callers.group(1), 3)
    assert callers.take() == [1, 2]
    assert callers.take(size_bytes=2) == [3, 4]
    assert callers.take(size_bytes=0) == [5], "one goes in any case"


def test_a_call_that_waits_holds_up_its_caller_only() -> None:
    callers = Callers()
    first, second = callers.group(1), callers.group(2)
    [waits] = callers.line_up(first, 1, TaskState.WAITING)
    callers.line_up(first, 1)
    callers.line_up(second, 1)
    assert callers.take() == [3]
    assert callers.take() == []
    assert not callers.queue.is_empty()
    waits.state = TaskState.QUEUED
    callers.queue.push(waits)
    assert callers.take() == [1, 2]


def test_what_has_ended_is_passed_over() -> None:
    callers = Callers()
    group = callers.group(1)
    tasks = callers.line_up(group, 3)
    tasks[0].state = tasks[2].state = TaskState.CANCELLED
    callers.queue.withdrawn()
    callers.queue.withdrawn()
    assert [task.id for task in callers.queue.tasks()] == [2]
    callers.queue.sweep(group)
    callers.queue.sweep(callers.group(5))
    assert callers.take() == [2]
    assert callers.queue.count == 0
    ended = callers.line_up(group, 1)[0]
    ended.state = TaskState.FAILED
    assert callers.take() == []


def test_what_comes_back_goes_first() -> None:
    callers = Callers()
    group = callers.group(1)
    tasks = callers.line_up(group, 3)
    callers.take(2)
    tasks[1].state = TaskState.WAITING
    callers.queue.give_back(tasks[:2])
    assert callers.queue.count == 2
    assert callers.take() == [1]
    tasks[1].state = TaskState.QUEUED
    callers.queue.push(tasks[1])
    assert callers.take() == [2, 3]
    callers.queue.push_front(tasks[1])
    callers.queue.push(tasks[0])
    assert callers.take() == [1, 2]


def actor(**options: object) -> Actor:
    create = CreateActor(actor=9, function=b"f", args=b"", options=ActorOptions(**options))  # type: ignore[arg-type]
    return Actor(create, FUNCTION, lambda: None)


def test_an_actor_moves_as_its_table_says() -> None:
    made = actor()
    made.move(ActorState.STARTING)
    made.move(ActorState.ALIVE)
    with pytest.raises(IllegalTransition, match="PENDING -> STARTING -> ALIVE"):
        made.move(ActorState.STARTING)
    assert not made.dead
    made.move(ActorState.DEAD)
    assert made.dead


def test_people_read_its_class_and_its_name() -> None:
    assert actor().title == "f"
    assert actor(class_name="Counter").title == "Counter"
    assert actor(class_name="Counter", name="hal").title == "Counter 'hal'"


def test_what_its_options_mean() -> None:
    assert actor().sequential
    assert not actor(max_concurrency=2).sequential
    assert not actor(groups={"io": 1}).sequential
    assert not actor(is_async=True).sequential
    assert actor(detached=True).detached
    assert not actor().may_restart()
    assert actor(max_restarts=-1).may_restart()
    once = actor(max_restarts=1)
    assert once.may_restart()
    once.restarts = 1
    assert not once.may_restart()
    assert once.record().restarts == 1
