from fibernb.core.events import ClientAttached, ClientGone, EngineAttached, LiveEngine, RecoverFrom, StoreLost
from fibernb.core.messages import Cancel, Consume, DefineFunction, Fetch, Goodbye, PutObjects, Release
from fibernb.model import COUNTER_BITS, STREAM_IDS, STREAMING, Outcome, Result, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, F, task
from tests.core.invariants import board_of, sizes

STREAM = TaskOptions(num_returns=STREAMING, max_retries=1)


def item(number: int, *, block: int = 0) -> Result:
    """The items count from 1 here, as their ids do."""
    return Result(task(number), b"item", blocks=(1 << COUNTER_BITS | block,) if block else ())


def streaming() -> Bench:
    bench = Bench(seats=1)
    bench.submit(0, options=STREAM)
    return bench


def consumes(bench: Bench) -> list[int]:
    return [message.items for _, message in bench.sent(Consume)]


def test_items_are_delivered_while_the_task_runs_and_held() -> None:
    bench = streaming()
    bench.answer(1, item(1), item(2))
    assert set(bench.results()) == {task(1), task(2)}
    bench.answer(1, item(3), Result(task(0), b"3"))
    assert list(bench.results()) == [task(3), task(0)]
    bench.acknowledge(2)
    assert board_of(bench.scheduler).engines[1].receipts.forget == 2
    assert set(board_of(bench.scheduler).objects.entries) == {task(1), task(2), task(3)}
    bench.submit(STREAM_IDS, deps=[task(2)])
    assert [run.inputs for _, run in bench.runs()] == [[item(2)]]
    bench.done(1, task(STREAM_IDS))
    bench.say(Release(objects=[task(1), task(2), task(3)]))
    bench.acknowledge(3)
    assert not any(sizes(bench.scheduler).values())


def test_an_item_is_no_sign_of_other_tasks() -> None:
    bench = Bench(seats=1)
    bench.submit(0)
    bench.answer(1, item(1, block=1))
    assert bench.results() == {}
    assert len(bench.blocks()[1]) == 1


def test_the_engine_hears_how_many_were_taken() -> None:
    bench = streaming()
    bench.say(Consume(task=task(0), items=3), Consume(task=task(0), items=2))
    assert consumes(bench) == [3, 3]
    bench.say(Consume(task=task(5), items=1))
    assert consumes(bench) == []


def test_nobody_else_takes_items() -> None:
    bench = streaming()
    bench.attach(BERT)
    bench.say(Consume(task=task(0), items=3), client=BERT)
    assert consumes(bench) == []
    bench.submit(STREAM_IDS)
    bench.say(Consume(task=task(STREAM_IDS), items=3))
    assert consumes(bench) == []


def test_what_was_taken_before_the_task_is_sent_waits_for_its_first_item() -> None:
    bench = Bench(seats=1)
    bench.submit(STREAM_IDS)
    bench.submit(0, options=STREAM)
    bench.say(Consume(task=task(0), items=3))
    assert consumes(bench) == []
    bench.done(1, task(STREAM_IDS))
    bench.answer(1, item(1))
    assert consumes(bench) == [3]


def test_a_stream_that_runs_again_passes_over_what_was_delivered() -> None:
    bench = streaming()
    bench.answer(1, item(1, block=1), item(2, block=2))
    bench.say(Release(objects=[task(1)]), Consume(task=task(0), items=2))
    bench.exit(1)
    bench.seat_all()
    bench.answer(2, item(1, block=11), item(2, block=12), item(3, block=13))
    assert set(bench.results()) == {task(3)}
    assert consumes(bench) == [2]
    kept, freed = bench.blocks()
    assert [block & 0xFF for block in kept] == [13]
    assert [block & 0xFF for block in freed] == [11, 12]


def test_a_stream_that_fails_keeps_its_items() -> None:
    bench = streaming()
    bench.answer(1, item(1))
    bench.answer(1, Result(task(0), b"oops", Outcome.ERROR))
    assert bench.results() == {task(0): (Outcome.ERROR, b"oops")}
    assert set(board_of(bench.scheduler).objects.entries) == {task(1)}


def test_items_of_a_cancelled_stream_are_dropped() -> None:
    bench = Bench(seats=1)
    bench.submit(STREAM_IDS)
    bench.submit(0, options=STREAM)
    bench.say(Cancel(tasks=[task(0)]))
    bench.answer(1, item(1, block=1))
    assert bench.results() == {}
    assert len(bench.blocks()[1]) == 1


def test_lost_items_are_made_again_without_back_pressure() -> None:
    bench = streaming()
    bench.answer(1, item(1, block=1), item(2, block=2), item(3, block=3), Result(task(0), b"3"))
    bench.acknowledge(1)
    bench.say(Release(objects=[task(1)]))
    bench.handle(StoreLost(generation=1, reason="x"))
    bench.say(Fetch(objects=[task(2), task(3)]))
    assert bench.calls() == {1: [task(0)]}
    bench.answer(1, item(1), item(2))
    assert consumes(bench) == [STREAM_IDS]
    assert bench.results() == {task(2): (Outcome.OK, b"item")}
    bench.answer(1, Result(task(0), b"2"))
    assert bench.results() == {task(3): (Outcome.ERROR, b"unknown object %d" % task(3))}


def test_a_stream_that_fails_when_it_is_made_again_fails_what_is_waited_for() -> None:
    bench = streaming()
    bench.answer(1, item(1, block=1), Result(task(0), b"1"))
    bench.handle(StoreLost(generation=1, reason="x"))
    bench.say(Fetch(objects=[task(1)]))
    bench.answer(1, Result(task(0), b"oops", Outcome.ERROR))
    assert bench.results() == {task(1): (Outcome.ERROR, b"oops")}


def test_a_stream_ends_with_its_client() -> None:
    bench = streaming()
    bench.attach(BERT)
    bench.answer(1, item(1))
    bench.say(Goodbye())
    assert board_of(bench.scheduler).streams == {}
    assert board_of(bench.scheduler).objects.entries == {}


# ---- after a restart of the hub --------------------------------------------------------------------------


def restarted(*holds: int) -> Bench:
    """An engine that has given two items of the stream 0, before the client is back."""
    bench = Bench(seats=0)
    bench.handle(ClientGone(client=ANNA), RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
    bench.handle(EngineAttached(engine=1, rank=0, pid=1, received=1, holds=list(holds), running=True, redelivers=1))
    bench.answer(1, item(1), item(2, block=2))
    return bench


def test_items_that_came_before_the_client_are_delivered_when_it_is_back() -> None:
    bench = restarted(task(0))
    bench.handle(ClientAttached(client=ANNA, lease_s=60.0))
    bench.submit(0, options=STREAM)
    assert list(bench.results()) == [task(1), task(2)]
    bench.answer(1, item(3), Result(task(0), b"3"))
    assert list(bench.results()) == [task(3), task(0)]
    bench.acknowledge(99)
    bench.say(Release(objects=[task(1), task(2), task(3)]))
    bench.wait(200.0)
    assert not any(sizes(bench.scheduler).values())


def test_so_are_those_of_a_stream_that_is_over() -> None:
    bench = restarted()
    bench.answer(1, Result(task(0), b"2"))
    bench.handle(ClientAttached(client=ANNA, lease_s=60.0))
    bench.submit(0, options=STREAM)
    assert list(bench.results()) == [task(1), task(2), task(0)]
    assert board_of(bench.scheduler).orphans == {}


def test_so_are_those_of_a_stream_whose_client_comes_while_its_engine_still_tells() -> None:
    bench = restarted()
    bench.handle(ClientAttached(client=ANNA, lease_s=60.0))
    bench.submit(0, options=STREAM)
    assert list(bench.results()) == [task(1), task(2)]
    bench.answer(1, item(3), Result(task(0), b"3"))
    assert list(bench.results()) == [task(3), task(0)]
    assert board_of(bench.scheduler).orphans == {}
    assert not bench.runs()


def test_those_of_a_stream_whose_input_has_failed_are_not() -> None:
    bench = restarted(task(0))
    bench.handle(ClientAttached(client=ANNA, lease_s=60.0))
    failed = Result(task(STREAM_IDS), b"oops", Outcome.ERROR)
    bench.say(PutObjects(objects=[failed]))
    bench.submit(0, deps=[task(STREAM_IDS)], options=STREAM)
    assert bench.results() == {task(0): (Outcome.ERROR, b"oops")}
    bench.wait(200.0)
    assert board_of(bench.scheduler).orphans == {}


def test_an_engine_hears_what_was_taken_while_it_was_away() -> None:
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
    bench.say(DefineFunction(digest=F, code=b"code of f"))
    bench.submit(0, options=STREAM)
    bench.say(Consume(task=task(0), items=4))
    assert consumes(bench) == []
    bench.handle(EngineAttached(engine=1, rank=0, pid=1, received=1, holds=[task(0)], running=True))
    assert consumes(bench) == [4]
