from fibernb.core.clients import Client
from fibernb.core.functions import Function
from fibernb.core.queueing import FairQueue
from fibernb.core.states import TaskState
from fibernb.core.tasks import Group, Task
from fibernb.model import DEFAULT_OPTIONS, Call


def group(client: int, name: bytes = b"f", parent: int | None = None) -> Group:
    key = (client, name, parent, b"", 0)
    return Group(key, Client(client, 60.0, None), Function(name, b"code", ""), DEFAULT_OPTIONS, parent)


def tasks(made: Group, *numbers: int) -> list[Task]:
    return [Task(number, Call(number, b""), made) for number in numbers]


def filled(*groups: tuple[Group, list[int]]) -> FairQueue:
    queue = FairQueue()
    for made, numbers in groups:
        queue.push_many(made, tasks(made, *numbers))
    return queue


def take(queue: FairQueue, count: int = 1) -> list[int]:
    current = queue.current()
    assert current is not None
    return [task.id for task in queue.take(current, count)]


def test_clients_take_turns() -> None:
    queue = filled((group(1), [1, 2, 3, 4]), (group(2), [11]))
    assert [take(queue, 2), take(queue, 2), take(queue, 2)] == [[1, 2], [11], [3, 4]]
    assert queue.current() is None
    assert queue.count == len(queue) == 0


def test_groups_of_a_client_take_turns() -> None:
    queue = filled((group(1, b"f"), [1, 2, 3]), (group(1, b"g"), [11, 12]))
    assert [take(queue) for _ in range(5)] == [[1], [11], [2], [12], [3]]


def test_many_groups_of_one_client_do_not_starve_another() -> None:
    queue = filled((group(1, b"f"), [1, 2]), (group(1, b"g"), [11, 12]), (group(2), [21, 22]))
    assert [take(queue) for _ in range(6)] == [[1], [21], [11], [22], [2], [12]]


def test_what_was_given_back_comes_first() -> None:
    made = group(1)
    queue = filled((made, [2]))
    queue.push_front(tasks(made, 1)[0])
    queue.push(tasks(made, 3)[0])
    assert queue.count == 3
    assert take(queue, 10) == [1, 2, 3]


def test_suspects_come_alone() -> None:
    made = group(1)
    queue = filled((made, [3, 4]))
    for suspect in tasks(made, 1, 2):
        queue.push_suspect(suspect)
    assert [take(queue, 10) for _ in range(3)] == [[1], [2], [3, 4]]


def test_find_makes_it_that_groups_turn() -> None:
    f, g, h = group(1, b"f"), group(1, b"g"), group(2)
    queue = filled((f, [1]), (g, [11]), (h, [21]))
    assert queue.find(lambda made: made is g) is g
    assert queue.current() is g
    assert queue.find(lambda made: False) is None
    assert take(queue) == [11]
    assert sorted(task.id for made in queue.groups() for task in made.ready) == [1, 21]


def test_withdrawn_tasks_are_swept_away() -> None:
    f, g = group(1, b"f"), group(1, b"g")
    queue = filled((f, [1, 2]), (g, [11]))
    first = f.ready[0]
    suspect = tasks(f, 3)[0]
    queue.push_suspect(suspect)
    for task in (first, suspect):
        task.state = TaskState.CANCELLED
        queue.withdrawn()
    queue.sweep(f)
    assert queue.count == 2
    assert [task.id for task in f.ready] == [2]
    assert len(queue) == 2


def test_sweeping_takes_empty_groups_and_clients_out() -> None:
    f, g = group(1, b"f"), group(1, b"g")
    queue = filled((f, [1]), (g, [11]))
    for made in (f, g):
        made.ready[0].state = TaskState.CANCELLED
        queue.withdrawn()
        queue.sweep(made)
    assert queue.current() is None
    assert len(queue) == queue.count == 0
    queue.sweep(f)
    assert not f.listed


def deepest(queue: FairQueue) -> list[int]:
    found = queue.deepest()
    assert found is not None
    return [task.id for task in queue.take(found, 1)]


def test_nested_tasks_are_gone_through_in_depth() -> None:
    queue = filled((group(1, parent=9), [1, 2]), (group(2, parent=1), [11, 12]))
    assert deepest(queue) == [11]
    queue.push_many(*(made := group(3, parent=11), tasks(made, 21)))
    assert [deepest(queue) for _ in range(4)] == [[21], [12], [1], [2]]
    assert queue.deepest() is None


def test_nested_tasks_do_not_starve_those_of_others() -> None:
    queue = filled((group(1), [1, 2]), (group(2, parent=9), [11, 12, 13]), (group(3, parent=11), [21, 22, 23]))
    order = [deepest(queue)[0] for _ in range(8)]
    assert order[0] == 1
    assert 2 in order[:4]
    assert [number for number in order if number > 2] == [21, 22, 23, 11, 12, 13]


def test_a_nested_group_that_is_swept_is_forgotten() -> None:
    made = group(1, parent=9)
    queue = filled((made, [1]))
    made.ready[0].state = TaskState.CANCELLED
    queue.withdrawn()
    queue.sweep(made)
    assert queue.deepest() is None
