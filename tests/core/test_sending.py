import math

import pytest

from fibernb.core.events import EngineAttached, LiveEngine, NodeUp, RecoverFrom
from fibernb.core.messages import (
    Blocked,
    CallActor,
    Exit,
    Forget,
    PutObjects,
    Recall,
    Run,
    Scale,
    Started,
    Submit,
    Unblocked,
)
from fibernb.core.settings import CoreSettings
from fibernb.model import Call, Resources, Result, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, F, G, task
from tests.core.invariants import board_of
from tests.core.test_acting import A, make

TWO_CPUS = TaskOptions(resources=Resources(milli_cpus=2000))
GPU = TaskOptions(resources=Resources(milli_gpus=1000))


def lengths(bench: Bench) -> list[int]:
    return [len(run.calls) for _, run in bench.runs()]


# ---- batches --------------------------------------------------------------------------------------------


def test_calls_of_unknown_length_go_one_by_one() -> None:
    bench = Bench(seats=2)
    bench.submit(*range(10))
    assert bench.calls() == {1: [task(0)], 2: [task(1)]}


@pytest.mark.parametrize(
    ("run_s", "expected"),
    [
        (1e-6, [512, 512, 512, 512]),
        (1e-4, [50, 50, 50, 50]),
        (1e-3, [5, 5, 5, 5]),
        (0.05, [1, 1, 1, 1]),
        (0.2, [1, 1]),
    ],
)
def test_batches_follow_the_work(run_s: float, expected: list[int]) -> None:
    """One batch runs on each engine and one waits behind it, but nothing behind long calls."""
    bench = Bench(seats=2)
    bench.learn(run_s)
    bench.submit(*range(5000))
    assert lengths(bench) == expected
    assert [engine for engine, _ in bench.runs()] == [1, 2, 1, 2][: len(expected)]


def test_few_calls_are_spread_over_the_engines() -> None:
    bench = Bench(seats=4)
    bench.learn(1e-4)
    bench.submit(*range(10))
    assert lengths(bench) == [3, 3, 2, 2]


def test_large_arguments_make_small_batches() -> None:
    bench = Bench(seats=1, settings=CoreSettings(max_batch_bytes=1000))
    bench.learn(1e-5)
    bench.say(Submit(function=F, calls=[Call(task(number), b"x" * 300) for number in range(20)]))
    assert lengths(bench) == [3, 3]


def test_an_engine_gets_its_next_batch_when_half_is_done() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(*range(100))
    assert lengths(bench) == [5, 5]
    bench.done(1, *map(task, range(4)))
    assert lengths(bench) == [], "more than one batch is left"
    bench.done(1, task(4))
    assert lengths(bench) == [5]


def test_nothing_waits_behind_calls_without_retries() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, options=TaskOptions(max_retries=0))
    assert bench.calls() == {1: [task(1)]}
    bench.submit(3)
    assert bench.calls() == {}


def test_short_calls_do_not_wait_behind_longer_ones() -> None:
    bench = Bench(seats=1)
    bench.learn(0.05)
    bench.learn(1e-5, function=G, number=900_001)
    bench.submit(1)
    bench.submit(2, function=G)
    assert bench.calls() == {}
    bench.done(1, task(1), run_s=0.05)
    assert bench.calls() == {1: [task(2)]}


def test_engines_that_give_no_sign_of_life_get_no_more() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1)
    bench.wait(0.2)
    bench.submit(2)
    assert bench.calls() == {}


def test_clients_take_turns() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.learn(0.2)
    bench.submit(*range(1000))
    bench.submit(1, client=BERT)
    bench.done(1, task(0), run_s=0.2)
    bench.done(1, task(1), run_s=0.2)
    assert bench.calls() == {1: [task(1, BERT)]}


def test_work_goes_to_the_lowest_idle_rank() -> None:
    bench = Bench(seats=3)
    bench.pin(1, [0])
    bench.submit(2)
    assert bench.calls() == {2: [task(2)]}


# ---- pinned tasks ---------------------------------------------------------------------------------------


def test_pinned_tasks_run_one_at_a_time_in_order_before_others() -> None:
    bench = Bench(seats=1)
    bench.pin(1, [0])
    bench.pin(2, [0])
    bench.submit(3)
    assert bench.calls() == {}
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(2)]}
    bench.done(1, task(2))
    assert bench.calls() == {1: [task(3)]}


def test_a_pinned_task_has_unstarted_calls_taken_back() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(*range(10))
    bench.pin(100, [0])
    assert bench.sent(Recall) == [(1, Recall(position=2, until=11))]
    bench.submit(50)
    assert bench.calls() == {}
    bench.recalled(1, 2, 11)
    assert bench.calls() == {}, "the first call runs"
    bench.done(1, task(0))
    assert bench.calls() == {1: [task(100)]}
    bench.done(1, task(100))
    assert bench.calls()[1][:2] == [task(1), task(2)]


def test_a_pinned_task_asks_again_when_an_earlier_recall_has_been_answered() -> None:
    bench = Bench(seats=2)
    loaded(bench, 10)
    bench.pin(100, [0])
    assert bench.sent(Recall) == []
    bench.recalled(1, 6, 11)
    assert bench.sent(Recall) == [(1, Recall(position=2, until=11))]


def test_a_pinned_task_waits_for_a_call_that_cannot_be_taken_back() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.pin(2, [0])
    assert bench.commands == []


def test_a_pinned_task_holds_back_the_next_batch() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1)
    bench.pin(2, [0])
    bench.submit(3)
    assert bench.calls() == {}


def test_seats_that_have_gone_or_are_not_ready_are_passed_over() -> None:
    bench = Bench(seats=1)
    board = board_of(bench.scheduler)
    board.awake = {0: None, 7: None}
    bench.exit(1)
    board.awake[0] = None
    bench.wait(0.01)
    assert bench.runs() == []


# ---- tasks that need more than a seat -------------------------------------------------------------------


def test_a_task_of_two_cpus_keeps_another_seat_empty() -> None:
    bench = Bench(seats=3)
    bench.submit(1, options=TWO_CPUS)
    bench.submit(2, 3)
    assert bench.calls() == {2: [task(2)]}
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(3)]}


def test_gpus_are_counted() -> None:
    bench = Bench(seats=4)
    bench.submit(1, 2, 3, options=GPU)
    assert bench.calls() == {1: [task(1)], 2: [task(2)]}
    bench.done(2, task(2))
    assert bench.calls() == {2: [task(3)]}


def test_a_task_goes_to_the_node_that_has_what_it_needs() -> None:
    bench = Bench(seats=1, slots=1)
    bench.handle(NodeUp(node="other", capacity=Resources(milli_cpus=0, custom={"tape": 1000})))
    bench.say(Scale(seats=3))
    bench.seat_all()
    bench.submit(1, options=TaskOptions(resources=Resources(custom={"tape": 1000})))
    assert bench.calls() == {2: [task(1)]}


def test_an_idle_seat_of_a_full_node_is_passed_over() -> None:
    bench = Bench(seats=2, slots=2)
    bench.handle(NodeUp(node="other"))
    bench.say(Scale(seats=3))
    bench.seat_all()
    bench.submit(1, options=TWO_CPUS)
    bench.submit(2)
    assert bench.calls() == {3: [task(2)]}


def test_a_large_task_is_not_starved_by_small_ones() -> None:
    bench = Bench(seats=2)
    bench.learn(0.2)
    bench.submit(*range(100))
    bench.submit(500, options=TWO_CPUS)
    bench.done(1, task(0), run_s=0.2)
    assert bench.calls() == {1: [task(2)]}, "small ones go on for a while"
    bench.wait(1.1)
    bench.done(1, task(2), run_s=0.2)
    assert bench.calls() == {}
    bench.done(2, task(1), run_s=0.2)
    assert bench.calls() == {1: [task(500)]}
    bench.done(1, task(500), run_s=0.2)
    assert bench.calls() == {1: [task(3)], 2: [task(4)]}


def test_a_task_that_cannot_fit_any_more_holds_nobody_up() -> None:
    bench = Bench(seats=2)
    bench.submit(1)
    bench.submit(2, options=TWO_CPUS)
    bench.say(Scale(seats=1))
    bench.wait(2.0)
    bench.submit(3)
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(3)]}


# ---- taking back ----------------------------------------------------------------------------------------


def loaded(bench: Bench, count: int, run_s: float = 1e-3) -> None:
    """Engine 1 gets everything, then a second seat falls idle."""
    bench.learn(run_s)
    bench.pin(777, [1])
    bench.submit(*range(count))
    bench.done(2, task(777), run_s=run_s)


def test_an_idle_engine_takes_back_half_of_the_longest_line() -> None:
    bench = Bench(seats=2)
    loaded(bench, 10)
    assert bench.sent(Recall) == [(1, Recall(position=6, until=11))]
    bench.recalled(1, 6, 11)
    assert bench.calls() == {2: [task(number) for number in range(5, 10)]}


def test_calls_behind_one_that_takes_too_long_are_all_taken_back() -> None:
    bench = Bench(seats=2)
    loaded(bench, 4)
    assert bench.sent(Recall) == []
    wake = bench.scheduler.next_wakeup(bench.now)
    assert wake == bench.now + 0.005
    bench.wait(0.005)
    assert bench.sent(Recall) == [(1, Recall(position=2, until=5))]
    bench.recalled(1, 3, 5)
    assert bench.calls() == {2: [task(2), task(3)]}


def test_calls_that_soon_end_are_left_alone() -> None:
    bench = Bench(seats=2)
    loaded(bench, 2)
    bench.done(1, task(0), task(1))
    bench.wait(1.0)
    assert bench.sent(Recall) == []


def test_one_recall_at_a_time() -> None:
    bench = Bench(seats=2)
    loaded(bench, 10)
    bench.wait(1.0)
    assert bench.sent(Recall) == []
    bench.recalled(1, 11, 11)
    assert bench.sent(Recall) == []
    bench.wait(1.0)
    assert bench.sent(Recall) == [], "the last one has begun"


def test_what_a_hub_before_has_sent_is_not_taken_back() -> None:
    bench = Bench(seats=2)
    loaded(bench, 4)
    board_of(bench.scheduler).engines[1].inherited = 100
    bench.wait(1.0)
    assert bench.sent(Recall) == []


def test_an_engine_that_ends_is_not_asked() -> None:
    bench = Bench(seats=2)
    loaded(bench, 4)
    board_of(bench.scheduler).engines[1].doomed = "for a test"
    board_of(bench.scheduler).interrupted.clear()
    bench.scheduler.drain(bench.now + 1.0)
    assert bench.sent(Recall) == []


# ---- forgetting -----------------------------------------------------------------------------------------


def test_engines_hear_with_the_next_call_what_they_may_forget() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.done(1, task(1))
    bench.acknowledge(1)
    bench.submit(2)
    assert [run.forget for _, run in bench.runs()] == [1]
    bench.wait(1.0)
    assert bench.sent(Forget) == []


def test_or_a_little_later() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.done(1, task(1))
    bench.acknowledge(1)
    bench.wait(0.6)
    assert bench.sent(Forget) == [(1, Forget(forget=1))]


def test_a_sign_of_life_counts() -> None:
    bench = Bench(seats=2)
    loaded(bench, 4)
    bench.now += 0.004
    bench.tell(1, Started(position=1))
    bench.wait(0.003)
    assert bench.sent(Recall) == []
    assert bench.told(ANNA, Run) == []


def test_nothing_is_sent_while_engines_have_not_told_what_they_have() -> None:
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
    bench.submit(1)
    assert bench.calls() == {}
    bench.handle(EngineAttached(engine=1, rank=0, pid=1))
    assert bench.calls() == {1: [task(1)]}


def test_a_draining_seat_begins_a_line_without_being_busy() -> None:
    bench = Bench(seats=1)
    bench.pin(1, [0])
    bench.pin(2, [0])
    bench.say(Scale(seats=0))
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(2)]}


# ---- inputs -----------------------------------------------------------------------------------------------


def with_inputs(*deps: int, numbers: range) -> Submit:
    """Calls that refer to one of the objects in turn."""
    calls = [Call(task(number), b"", (task(deps[number % len(deps)]),)) for number in numbers]
    return Submit(function=F, calls=calls)


def put(*numbers: int, size: int) -> PutObjects:
    return PutObjects(objects=[Result(task(number), b"x" * size) for number in numbers])


def test_large_inputs_make_small_batches() -> None:
    bench = Bench(seats=1, settings=CoreSettings(max_batch_bytes=1000))
    bench.learn(1e-5)
    bench.say(put(*range(100, 120), size=400), with_inputs(*range(100, 120), numbers=range(20)))
    assert lengths(bench) == [3, 3], "one that there must be, and what fits beside it"


def test_an_input_that_many_calls_share_counts_once() -> None:
    bench = Bench(seats=1, settings=CoreSettings(max_batch_bytes=1000))
    bench.learn(1e-5)
    bench.say(put(100, size=5000), with_inputs(100, numbers=range(20)))
    assert lengths(bench) == [20]


def test_no_batch_is_larger_than_a_message_may_be() -> None:
    bench = Bench(seats=1, settings=CoreSettings(max_batch_bytes=1000, max_call_bytes=1000))
    bench.learn(1e-5)
    bench.say(put(100, 101, size=900), with_inputs(100, 101, numbers=range(4)))
    assert lengths(bench) == [1, 1]


def test_one_large_call_among_small_ones_travels_alone() -> None:
    bench = Bench(seats=1, settings=CoreSettings(max_batch_bytes=1000))
    bench.learn(1e-5)
    sizes = [1, 1, 1, 1000, 1, 1, 1, 1, 1]
    bench.say(Submit(function=F, calls=[Call(task(number), b"x" * size) for number, size in enumerate(sizes)]))
    assert lengths(bench) == [1, 1]


# ---- engines that wear out, and those beside the seats ---------------------------------------------------


def test_an_engine_is_replaced_when_it_has_run_a_function_often_enough() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-5)
    bench.submit(1, 2, 3, options=TaskOptions(max_calls=2))
    assert bench.calls() == {1: [task(1), task(2)]}
    bench.submit(4)
    assert not bench.runs()
    bench.done(1, task(1), task(2), run_s=1e-5)
    bench.acknowledge(9)
    assert bench.sent(Exit) == [(1, Exit())]
    bench.exit(1, 0)
    assert bench.starts() == [0]
    bench.seat_all()
    [(engine, calls)] = bench.calls().items()
    assert engine != 1
    assert calls == [task(3), task(4)]


def test_ordinary_tasks_run_in_the_place_of_one_that_waits() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-5)
    bench.submit(1)
    bench.submit(2, 3, function=G)
    bench.say(Blocked(task=task(1)))
    bench.seat_all()
    [(extra, calls)] = bench.calls().items()
    assert calls == [task(2)]
    bench.done(extra, task(2), run_s=1e-5)
    assert bench.calls() == {extra: [task(3)]}


def test_and_get_no_more_when_that_one_goes_on() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, function=G)
    bench.submit(2, 3)
    bench.say(Blocked(task=task(1)))
    bench.seat_all()
    [extra] = bench.calls()
    bench.say(Unblocked(task=task(1)))
    bench.submit(4)
    assert not bench.runs()
    bench.done(extra, task(2))
    assert not bench.runs()


def test_there_may_be_more_room_than_tasks() -> None:
    bench = Bench(seats=2)
    bench.submit(1, 2)
    bench.say(Blocked(task=task(1)), Blocked(task=task(2)))
    bench.submit(3)
    bench.seat_all()
    [extra] = bench.calls()
    bench.done(extra, task(3))
    bench.submit(4)
    assert bench.calls() == {extra: [task(4)]}


# ---- calls that a client had sent itself ------------------------------------------------------------------


def begun(number: int) -> Submit:
    return Submit(function=F, calls=[Call(task(number), b"args")], begun_on=1)


def test_a_call_that_has_begun_stands_in_the_line_of_its_engine() -> None:
    bench = Bench(seats=1)
    bench.say(begun(1))
    assert bench.calls() == {1: [task(1)]}
    bench.submit(2)
    assert bench.calls() == {}, "nothing is sent behind it"
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(2)]}
    assert board_of(bench.scheduler).engines[1].adopted_from == math.inf


def test_what_has_begun_is_not_taken_back() -> None:
    bench = Bench(seats=2)
    bench.learn(1e-3)
    bench.submit(*range(1, 5))
    bench.say(begun(9))
    bench.done(2, task(3), task(4))
    bench.wait(1.0)
    assert [recall for engine, recall in bench.sent(Recall) if engine == 1] == [Recall(position=2, until=3)]


def test_a_call_of_an_actor_that_has_begun() -> None:
    bench = Bench(seats=1)
    engine = make(bench)
    bench.say(CallActor(actor=A, function=G, calls=[Call(task(1), b"args")], begun_on=engine))
    bench.say(CallActor(actor=A, function=G, calls=[Call(task(2), b"args")]))
    assert bench.calls() == {engine: [task(2)]}, "others follow it"
    bench.done(engine, task(1), task(2))
    assert set(bench.results()) == {task(1), task(2)}
