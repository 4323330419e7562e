from fibernb.core.functions import Function
from fibernb.core.objects import LINEAGE_BYTES, UNHELD, Lineage, Objects, Stream
from fibernb.core.tasks import Task
from fibernb.model import DEFAULT_OPTIONS, Call, Result, TaskOptions
from tests.core import test_tasks

VALUE = Result(7, b"value")


def task(*deps: int, refs: tuple[int, ...] = (), id_: int = 100) -> Task:
    made = test_tasks.task()
    made.id = id_
    made.call = Call(id_, b"args", deps, refs)
    return made


def hold(objects: Objects, result: Result) -> None:
    """As if a client had put it."""
    entry = objects.entry(result.id)
    entry.result = result
    entry.holders += 1
    objects.keep_blocks(result)
    for object_id in result.refs:
        objects.entry(object_id).uses += 1


def need(objects: Objects, object_id: int, needs: Task) -> None:
    objects.need(object_id, objects.entry(object_id), needs)


def test_an_object_lives_while_it_is_held() -> None:
    objects = Objects()
    hold(objects, VALUE)
    objects.entry(7).holders += 1
    objects.release(7)
    assert set(objects.entries) == {7}
    objects.release(7)
    assert objects.entries == {}


def test_an_object_lives_while_it_is_needed() -> None:
    objects = Objects()
    hold(objects, VALUE)
    first, second = task(7, 7), task(refs=(7,), id_=101)
    need(objects, 7, first)
    objects.entry(7).uses += 1
    assert first.blockers == 0
    objects.release(7)
    objects.needed_no_more(first.call)
    assert objects.inputs([first.call, first.call]) == [VALUE]
    objects.needed_no_more(second.call)
    assert objects.entries == {}
    objects.needed_no_more(second.call)


def test_an_object_lives_while_something_else_than_a_task_uses_it() -> None:
    objects = Objects()
    hold(objects, VALUE)
    objects.entry(7).uses += 2
    objects.release(7)
    objects.use_no_more(7)
    assert set(objects.entries) == {7}
    objects.use_no_more(7)
    assert objects.entries == {}


def test_tasks_wait_once_for_what_is_not_there() -> None:
    objects = Objects()
    waiting = task(7)
    need(objects, 7, waiting)
    objects.wait(7, objects.entries[7], waiting)
    assert waiting.blockers == 1
    assert objects.entries[7].waiting == {100: waiting}
    assert objects.inputs([waiting.call]) == []
    assert not objects.wanted
    objects.needed_no_more(waiting.call)
    assert objects.entries == {}


def test_what_was_lost_is_wanted_when_a_task_needs_it() -> None:
    objects = Objects()
    hold(objects, Result(7, b"", blocks=(1,)))
    assert list(objects.lose(objects.entries[7], "why")) == []
    need(objects, 7, task(7))
    assert objects.entries[7].lost == "why"
    assert list(objects.wanted) == [7]
    objects.release(7)
    objects.needed_no_more(task(7).call)
    assert not objects.wanted


def test_blocks_are_free_when_the_last_value_in_them_goes() -> None:
    objects = Objects()
    hold(objects, Result(7, b"", blocks=(1, 2)))
    hold(objects, Result(8, b"", blocks=(2,)))
    assert objects.kept == [1, 2]
    objects.release(7)
    assert objects.freed == [1]
    objects.discard(Result(9, b"", blocks=(2, 3)))
    assert objects.freed == [1, 3]
    objects.drop_value(Result(8, b"", blocks=(2,)))
    assert objects.freed == [1, 3, 2]


def test_what_a_value_contains_goes_with_it_however_deep() -> None:
    objects = Objects()
    hold(objects, Result(0, b""))
    for number in range(1, 3000):
        hold(objects, Result(number, b"", refs=(number - 1,)))
        objects.release(number - 1)
    assert len(objects.entries) == 3000
    objects.release(2999)
    assert objects.entries == {}


def test_what_is_kept_outside_of_entries_contains_as_well() -> None:
    objects = Objects()
    hold(objects, VALUE)
    objects.entries[7].uses += 2
    objects.drop_value(Result(9, b"", refs=(7,)))
    assert set(objects.entries) == {7}
    objects.release(7)
    assert set(objects.entries) == {7}
    objects.drop_value(Result(9, b"", refs=(7,)))
    assert objects.entries == {}


def test_after_a_restart_nothing_goes() -> None:
    objects = Objects()
    objects.patient = True
    hold(objects, Result(7, b"", blocks=(1,)))
    objects.release(7)
    objects.discard(Result(8, b"", blocks=(2,)))
    assert set(objects.entries) == {7}
    assert objects.freed == []
    objects.patient = False
    objects.let_go(7)
    assert objects.entries == {}
    assert objects.freed == [1]


def test_the_end_of_a_watched_object_is_told() -> None:
    objects = Objects()
    hold(objects, VALUE)
    objects.watched.add(7)
    objects.release(7)
    assert (objects.dropped, objects.watched) == ([7], set())


def test_the_size_of_what_is_there() -> None:
    objects = Objects()
    hold(objects, VALUE)
    need(objects, 8, task(8))
    assert objects.size_bytes([7, 8]) == len(VALUE.value)


# ---- lineage ---------------------------------------------------------------------------------------------


def derive(objects: Objects, id_: int, *deps: int) -> None:
    """Hold a stored value that was made from others."""
    call = Call(id_, b"args", deps)
    hold(objects, Result(id_, b"", blocks=(id_,)))
    lineage = Lineage(call, Function(b"f", b"", "f"), DEFAULT_OPTIONS, 0)
    objects.originate(lineage)
    lineage.outputs.add(id_)
    objects.entries[id_].lineage = lineage


def test_an_heirloom_gives_up_its_value_and_goes_with_its_last_heir() -> None:
    objects = Objects()
    derive(objects, 1)
    derive(objects, 2, 1)
    derive(objects, 3, 2)
    for id_ in (1, 2):
        objects.release(id_)
        assert objects.freed[-1] == id_
        assert (objects.entries[id_].result, objects.entries[id_].lost) == (None, UNHELD)
    assert objects.lineage_bytes == 3 * (LINEAGE_BYTES + 4)
    objects.release(3)
    assert objects.entries == {}
    assert objects.lineages == {}
    assert objects.lineage_bytes == 0


def test_a_small_heirloom_keeps_its_value() -> None:
    objects = Objects()
    hold(objects, Result(1, b"small"))
    derive(objects, 2, 1)
    objects.release(1)
    assert objects.entries[1].result == Result(1, b"small")
    objects.release(2)
    assert objects.entries == {}


def test_lineage_stays_while_one_of_its_outputs_does() -> None:
    objects = Objects()
    derive(objects, 1)
    hold(objects, Result(2, b"", blocks=(2,)))
    lineage = objects.entries[2].lineage = objects.entries[1].lineage
    assert lineage is not None
    lineage.outputs.add(2)
    objects.release(1)
    assert objects.lineages == {1: lineage}
    objects.release(2)
    assert objects.lineages == {}


def test_the_oldest_lineages_go_when_there_are_too_many() -> None:
    objects = Objects()
    derive(objects, 1)
    derive(objects, 2, 1)
    derive(objects, 3, 2)
    objects.release(1)
    objects.release(2)
    objects.trim(2 * (LINEAGE_BYTES + 4))
    assert set(objects.lineages) == {2, 3}
    assert objects.entries[1].lineage is None
    objects.trim(0)
    assert set(objects.entries) == {3}


def test_a_value_is_made_again_as_often_as_its_retries_allow() -> None:
    function = Function(b"f", b"", "f")
    call = Call(1, b"args")
    assert Lineage(call, function, TaskOptions(max_retries=2), 1).may_run()
    assert not Lineage(call, function, TaskOptions(max_retries=2), 2).may_run()
    assert Lineage(call, function, TaskOptions(max_retries=-1), 99).may_run()


def test_a_stream_begins_with_nothing() -> None:
    stream = Stream()
    assert (stream.delivered, stream.consumed) == (0, 0)


def test_heirlooms_whose_heirs_lose_their_lineage_go() -> None:
    objects = Objects()
    derive(objects, 1)
    derive(objects, 2, 1)
    objects.release(1)
    objects.trim(LINEAGE_BYTES)
    assert set(objects.entries) == {2}
