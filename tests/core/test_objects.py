from fibernb.core.objects import Objects
from fibernb.core.tasks import Task
from fibernb.model import Call, Result
from tests.core import test_tasks

VALUE = Result(7, b"value")


def task(*deps: int) -> Task:
    made = test_tasks.task()
    made.call = Call(made.id, b"", deps)
    return made


def test_an_object_lives_while_it_is_held() -> None:
    objects = Objects()
    assert objects.put(VALUE) == []
    objects.release(7)
    objects.release(7)
    assert objects.entries == {}


def test_an_object_lives_while_it_is_needed() -> None:
    objects = Objects()
    objects.put(VALUE)
    first, second = task(7, 7), task(7)
    for each in (first, second):
        objects.need(7, each, None)
        assert each.blockers == 0
    objects.release(7)
    objects.needed_no_more(first.call)
    assert objects.inputs([second.call, second.call]) == [VALUE]
    objects.needed_no_more(second.call)
    assert objects.entries == {}
    objects.needed_no_more(second.call)


def test_tasks_wait_for_what_is_not_there() -> None:
    objects = Objects()
    waiting = task(7)
    entry = objects.need(7, waiting, None)
    assert waiting.blockers == 1
    assert objects.inputs([waiting.call]) == []
    assert objects.put(VALUE) == [waiting]
    assert objects.fulfil(entry, VALUE) == []


def test_a_known_value_makes_an_entry() -> None:
    objects = Objects()
    needs = task(7)
    entry = objects.need(7, needs, VALUE)
    assert (entry.result, entry.uses, entry.held, needs.blockers) == (VALUE, 1, False, 0)


def test_the_size_of_what_is_there() -> None:
    objects = Objects()
    objects.put(VALUE)
    objects.need(8, task(8), None)
    assert objects.size_bytes([7, 8]) == len(VALUE.value)
