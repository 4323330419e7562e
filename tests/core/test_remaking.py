from fibernb.core.events import StoreLost
from fibernb.core.messages import Fetch, Hold, PutObjects, Release
from fibernb.core.remaking import GONE
from fibernb.model import COUNTER_BITS, BlockId, Outcome, Result, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, task
from tests.core.invariants import board_of, sizes

LOST_STORE = StoreLost(generation=1, reason="it was killed")
WHY = "the object store ended: it was killed"


def block(number: int, generation: int = 1) -> BlockId:
    return generation << COUNTER_BITS | number


def stored(number: int, generation: int = 1, more: tuple[Result, ...] = ()) -> Result:
    return Result(task(number), b"head", more=more, blocks=(block(number, generation),))


def chain(length: int, seats: int = 1, options: TaskOptions | None = None) -> Bench:
    """Tasks 1 to ``length``, each with the value of the one before as its input, all done and stored."""
    bench = Bench(seats=seats)
    for number in range(1, length + 1):
        deps = [task(number - 1)] if number > 1 else []
        bench.submit(number, deps=deps, options=options or TaskOptions())
        bench.answer(1, stored(number))
    bench.acknowledge(100)
    return bench


def put(number: int) -> PutObjects:
    return PutObjects(objects=[stored(number)])


def lost(number: int, why: str) -> tuple[Outcome, bytes]:
    return Outcome.ERROR, f"object {task(number)} lost: {why}".encode()


def test_a_lost_value_is_made_again_when_it_is_fetched() -> None:
    bench = chain(1)
    bench.handle(LOST_STORE)
    assert bench.calls() == {}
    bench.say(Fetch(objects=[task(1)]))
    assert bench.calls() == {1: [task(1)]}
    assert bench.results() == {}
    bench.answer(1, stored(1, 2))
    assert bench.results() == {task(1): (Outcome.OK, b"head")}
    assert bench.blocks() == ([block(1, 2)], [])
    bench.say(Release(objects=[task(1)]))
    bench.acknowledge(100)
    assert not any(sizes(bench.scheduler).values())


def test_who_finds_blocks_gone_tells_it() -> None:
    bench = chain(2)
    bench.say(Fetch(objects=[task(1)], lost=[block(1)]))
    assert bench.blocks() == ([], [block(1)])
    assert bench.calls() == {1: [task(1)]}
    bench.answer(1, stored(1, 2))
    bench.say(Fetch(objects=[task(1)], lost=[block(1)]))
    assert bench.results() == {task(1): (Outcome.OK, b"head")}


def test_inputs_are_made_again_as_well_even_those_that_nobody_held_any_more() -> None:
    bench = chain(4)
    bench.say(Release(objects=[task(1), task(2), task(3)]))
    bench.handle(LOST_STORE)
    bench.submit(9, deps=[task(4)])
    for number in (1, 2, 3, 4):
        assert bench.calls() == {1: [task(number)]}
        bench.answer(1, stored(number, 2))
    assert [run.inputs for _, run in bench.runs()] == [[stored(4, 2)]]
    assert bench.calls() == {1: [task(9)]}
    assert set(board_of(bench.scheduler).objects.blocks) == {block(4, 2)}
    bench.done(1, task(9))
    bench.say(Release(objects=[task(4)]))
    bench.acknowledge(100)
    assert not any(sizes(bench.scheduler).values())


def test_making_again_is_bounded_by_the_retries() -> None:
    bench = chain(1, options=TaskOptions(max_retries=2))
    for generation in (1, 2):
        bench.handle(StoreLost(generation=generation, reason="x"))
        bench.say(Fetch(objects=[task(1)]))
        bench.answer(1, stored(1, generation + 1))
    bench.handle(StoreLost(generation=3, reason="x"))
    bench.say(Fetch(objects=[task(1)]))
    why = "the object store ended: x, and it has been made again as often as its max_retries allow (2)"
    assert bench.results() == {task(1): lost(1, why)}


def test_deaths_while_making_again_count_as_well() -> None:
    bench = chain(1, options=TaskOptions(max_retries=1))
    bench.handle(LOST_STORE)
    bench.say(Fetch(objects=[task(1)]))
    bench.exit(1)
    assert bench.results() == {task(1): (Outcome.ERROR, b"died 0 local -9  ")}


def test_what_was_put_cannot_be_made_again() -> None:
    bench = Bench(seats=1)
    bench.say(put(1))
    bench.submit(2, deps=[task(1)])
    bench.done(1, task(2), run_s=0.2)
    bench.submit(3)
    bench.submit(4, deps=[task(1)])
    bench.submit(5, deps=[task(1), task(3)])
    bench.handle(LOST_STORE)
    reasons = "it was put, made by an actor, may not be retried, or was made before the hub was restarted"
    why = f"{WHY}, and it cannot be made again, since {reasons}"
    assert bench.results() == dict.fromkeys((task(4), task(5)), lost(1, why))


def test_queued_tasks_wait_again_for_what_they_need() -> None:
    bench = chain(1)
    bench.pin(7, [0])
    bench.pin(8, [0], deps=[task(1)])
    bench.submit(5, 6, deps=[task(1)])
    bench.submit(9)
    bench.handle(LOST_STORE)
    assert board_of(bench.scheduler).tasks[task(5)].blockers == 1
    bench.done(1, task(7))
    assert bench.calls() == {1: [task(9)]}
    bench.done(1, task(9))
    assert bench.calls() == {1: [task(1)]}
    bench.answer(1, stored(1, 2))
    assert bench.calls() == {1: [task(8)]}
    bench.done(1, task(8))
    assert bench.calls() == {1: [task(5)]}


def test_only_what_was_lost_is_made_again() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(num_returns=3))
    bench.answer(1, stored(1, 1, (stored(2), stored(3, 2))))
    bench.handle(LOST_STORE)
    bench.say(Fetch(objects=[task(1), task(2)]))
    assert bench.calls() == {1: [task(1)]}
    bench.answer(1, stored(1, 3, (stored(2, 3), stored(3, 3))))
    assert bench.blocks() == ([block(1, 3), block(2, 3)], [block(3, 3)])


def test_a_value_that_is_not_made_again_is_missing_at_the_end() -> None:
    for outcome, said in ((Outcome.OK, b"unknown object %d" % task(2)), (Outcome.ERROR, b"oops")):
        bench = Bench(seats=1)
        bench.submit(1, options=TaskOptions(num_returns=2))
        bench.answer(1, stored(1, 1, (stored(2),)))
        bench.handle(LOST_STORE)
        bench.say(Fetch(objects=[task(2)]))
        bench.answer(1, Result(task(1), b"oops", outcome))
        assert bench.results() == {task(2): (Outcome.ERROR, said)}


def test_what_a_lost_value_contained_is_let_go() -> None:
    bench = Bench(seats=1)
    bench.say(put(1), PutObjects(objects=[Result(task(2), b"", blocks=(block(2),), refs=(task(1), task(3)))]))
    bench.say(Release(objects=[task(1)]))
    bench.handle(LOST_STORE)
    assert set(board_of(bench.scheduler).objects.entries) == {task(2)}


def test_a_value_that_is_wanted_no_more_is_not_made_again() -> None:
    bench = chain(1)
    bench.handle(LOST_STORE)
    bench.scheduler.client_message(ANNA, Fetch(objects=[task(1)]), bench.now)
    bench.say(Release(objects=[task(1)]))
    assert bench.calls() == {}
    board = board_of(bench.scheduler)
    board.objects.wanted[task(1)] = None
    bench.drain()
    assert not board.objects.wanted


def test_a_value_that_came_back_in_time_is_not_made_again() -> None:
    bench = chain(1)
    bench.attach(BERT)
    bench.say(Hold(objects=[task(1)]), client=BERT)
    bench.handle(LOST_STORE)
    bench.scheduler.client_message(ANNA, Fetch(objects=[task(1)]), bench.now)
    bench.say(PutObjects(objects=[stored(1, 2)]), client=BERT)
    assert bench.calls() == {}
    assert bench.results() == {task(1): (Outcome.OK, b"head")}


def test_a_value_that_is_being_made_again_is_not_made_twice() -> None:
    bench = chain(1, seats=2)
    bench.attach(BERT)
    bench.handle(LOST_STORE)
    bench.say(Fetch(objects=[task(1)]))
    bench.say(Fetch(objects=[task(1)]), client=BERT)
    assert bench.calls() == {}
    bench.answer(1, stored(1, 2))
    assert bench.results() == bench.results(BERT) == {task(1): (Outcome.OK, b"head")}


def test_what_is_still_to_come_is_waited_for() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(Fetch(objects=[task(1)]))
    assert not board_of(bench.scheduler).objects.wanted
    bench.answer(1, stored(1))
    assert set(bench.results()) == {task(1)}


def test_what_others_found_missing_is_told_as_gone() -> None:
    bench = Bench(seats=1)
    bench.say(put(1))
    bench.say(Fetch(objects=[task(1)], lost=[block(1)]))
    assert bench.results()[task(1)][1].startswith(b"object %d lost: %s" % (task(1), GONE.encode()))
