from fibernb.core.events import ClientAttached, ClientGone
from fibernb.core.holding import is_stored, needed, will_come
from fibernb.core.messages import CreateActor, Fetch, Goodbye, Hold, PutObjects, Release
from fibernb.model import ActorOptions, Outcome, Result, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, F, task
from tests.core.invariants import board_of, sizes

STORED = Result(task(1), b"head", blocks=(7,))


def two(seats: int = 1) -> Bench:
    bench = Bench(seats=seats)
    bench.attach(BERT)
    return bench


def objects(bench: Bench) -> set[int]:
    return set(board_of(bench.scheduler).objects.entries)


def test_a_stored_result_is_held_by_its_client() -> None:
    bench = two()
    bench.submit(1)
    bench.answer(1, STORED)
    assert bench.blocks() == ([7], [])
    assert bench.results() == {task(1): (Outcome.OK, b"head")}
    bench.acknowledge(1)
    assert objects(bench) == {task(1)}
    bench.say(Release(objects=[task(1)]))
    assert bench.blocks() == ([], [7])
    bench.say(Release(objects=[task(1)]))
    assert not any(sizes(bench.scheduler).values())


def test_a_small_plain_result_is_not_kept() -> None:
    bench = two()
    bench.submit(1)
    bench.done(1, task(1))
    bench.acknowledge(1)
    assert not any(sizes(bench.scheduler).values())


def test_an_object_lives_as_long_as_one_of_its_holders() -> None:
    bench = two()
    bench.say(PutObjects(objects=[STORED]))
    bench.say(Hold(objects=[task(1), task(1)]), client=BERT)
    bench.say(Release(objects=[task(1)]))
    assert objects(bench) == {task(1)}
    bench.say(Release(objects=[task(1)]), client=BERT)
    assert objects(bench) == set()


def test_what_a_value_contains_is_kept_with_it() -> None:
    bench = two()
    bench.submit(2)
    bench.say(PutObjects(objects=[STORED, Result(task(3), b"[refs]", refs=(task(1), task(2)))]))
    bench.say(Release(objects=[task(1)]))
    bench.done(1, task(2), value=b"two")
    bench.acknowledge(1)
    assert objects(bench) == {task(1), task(2), task(3)}
    bench.say(Fetch(objects=[task(2)]), client=BERT)
    assert bench.results(BERT) == {task(2): (Outcome.OK, b"two")}
    bench.say(Release(objects=[task(3)]))
    assert objects(bench) == {task(2)}


def test_what_is_nowhere_is_told_to_who_fetches_it() -> None:
    bench = two()
    bench.say(Hold(objects=[task(1)]), Fetch(objects=[task(1)]), client=BERT)
    assert bench.results(BERT) == {task(1): (Outcome.ERROR, b"unknown object %d" % task(1))}
    bench.say(Release(objects=[task(1)]), client=BERT)
    assert objects(bench) == set()


def test_a_stored_value_that_was_given_up_is_nowhere_though_its_delivery_is_not_acknowledged() -> None:
    bench = two()
    bench.submit(1)
    bench.answer(1, STORED)
    bench.say(Release(objects=[task(1)]))
    bench.say(Fetch(objects=[task(1)]), client=BERT)
    assert bench.results(BERT) == {task(1): (Outcome.ERROR, b"unknown object %d" % task(1))}


def test_a_small_value_is_there_until_it_is_acknowledged() -> None:
    bench = two()
    bench.submit(1)
    bench.done(1, task(1))
    bench.say(Fetch(objects=[task(1)]), client=BERT)
    assert bench.results(BERT) == {task(1): (Outcome.OK, b"value")}


def test_a_value_is_given_to_those_who_wait_for_it_and_still_want_it() -> None:
    bench = two()
    bench.attach(7)
    bench.attach(8)
    bench.submit(1)
    for client in (BERT, 7, 8):
        bench.say(Fetch(objects=[task(1)]), client=client)
        assert bench.results(client) == {}
    bench.say(Release(objects=[task(1)]), client=7)
    bench.say(Goodbye(), client=8)
    bench.done(1, task(1))
    assert [set(bench.results(client)) for client in (ANNA, BERT, 7)] == [{task(1)}, {task(1)}, set()]


def test_who_has_left_is_given_nothing() -> None:
    bench = two()
    bench.submit(1)
    bench.say(Fetch(objects=[task(1)]), client=BERT)
    board = board_of(bench.scheduler)
    board.objects.entries[task(1)].fetchers[99] = None
    bench.done(1, task(1))
    assert set(bench.results(BERT)) == {task(1)}


def test_only_who_holds_an_object_releases_it() -> None:
    bench = two()
    bench.say(PutObjects(objects=[STORED]))
    bench.say(Release(objects=[task(1)]), client=BERT)
    assert objects(bench) == {task(1)}


def test_what_is_on_its_way_is_not_in_doubt_after_a_break() -> None:
    bench = two()
    bench.submit(1, options=TaskOptions(num_returns=2))
    bench.handle(ClientGone(client=ANNA))
    bench.answer(1, Result(task(1), b"one", more=(Result(task(2), b"two", blocks=(7,)),)))
    bench.handle(ClientAttached(client=ANNA, lease_s=60.0))
    bench.wait(20.0)
    assert objects(bench) == {task(2)}


def test_what_was_not_told_again_after_a_break_is_dropped() -> None:
    bench = two()
    bench.say(PutObjects(objects=[STORED]))
    for _ in range(2):
        bench.handle(ClientGone(client=ANNA))
        bench.handle(ClientAttached(client=ANNA, lease_s=60.0))
        bench.wait(10.0)
        assert objects(bench) == set()


def test_a_client_that_ends_is_not_doubted_any_more() -> None:
    bench = two()
    bench.say(PutObjects(objects=[STORED]))
    bench.handle(ClientGone(client=ANNA))
    bench.handle(ClientAttached(client=ANNA, lease_s=60.0))
    bench.say(Goodbye())
    bench.wait(20.0)
    assert objects(bench) == set()


def test_an_actor_that_lives_without_holders_can_be_held_again() -> None:
    bench = two()
    bench.say(CreateActor(actor=task(5), function=F, args=b"", options=ActorOptions(name="a", detached=True)))
    bench.say(Release(objects=[task(5)]))
    bench.say(Fetch(objects=[task(5)]), client=BERT)
    assert bench.results(BERT) == {}
    entry = board_of(bench.scheduler).objects.entries[task(5)]
    assert (entry.result, list(entry.fetchers)) == (None, [BERT])


def test_questions() -> None:
    bench = two()
    bench.submit(1, options=TaskOptions(num_returns=2))
    board = board_of(bench.scheduler)
    assert will_come(board, task(2))
    assert not will_come(board, task(9))
    assert not needed(board, board.tasks[task(1)])
    bench.say(Hold(objects=[task(2)]), client=BERT)
    assert needed(board, board.tasks[task(1)])
    assert is_stored(STORED)
    assert not is_stored(Result(1, b""))
