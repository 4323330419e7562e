from fibernb.core.events import EngineAttached, LiveEngine, RecoverFrom
from fibernb.core.messages import (
    CallActor,
    Cancel,
    CreateActor,
    Done,
    Fetch,
    Goodbye,
    Interrupt,
    PutObjects,
    Release,
    Scale,
    Submit,
)
from fibernb.core.settings import CoreSettings
from fibernb.model import STREAMING, Call, Outcome, Result, TaskId, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, F, G, task
from tests.core.invariants import board_of, sizes

OK = (Outcome.OK, b"value")


def test_a_value_wakes_those_who_wait_for_it() -> None:
    bench = Bench(seats=3)
    bench.submit(1)
    bench.submit(2, 3, deps=[task(1)])
    bench.submit(4, deps=[task(1), task(2)])
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(2)], 2: [task(3)]}
    bench.done(1, task(2))
    assert bench.calls() == {1: [task(4)]}


def test_an_error_runs_down_a_long_chain() -> None:
    bench = Bench(seats=1)
    bench.submit(0)
    for number in range(1, 2000):
        bench.scheduler.client_message(
            ANNA, Submit(function=F, calls=[Call(task(number), b"", (task(number - 1),))]), bench.now
        )
    bench.done(1, task(0), value=b"oops", outcome=Outcome.ERROR)
    assert bench.results() == {task(number): (Outcome.ERROR, b"oops") for number in range(2000)}
    bench.acknowledge(1)
    assert not any(sizes(bench.scheduler).values())


def test_a_cancelled_input_cancels_the_call() -> None:
    bench = Bench(seats=0)
    bench.submit(1)
    bench.submit(2, deps=[task(1)])
    bench.say(Cancel(tasks=[task(1)]))
    value = b"cancelled: it was cancelled"
    assert bench.results() == dict.fromkeys((task(1), task(2)), (Outcome.CANCELLED, value))


def test_a_dependent_that_has_ended_already_is_left_alone() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.submit(2, deps=[task(1)])
    bench.submit(3, deps=[task(1), task(2)])
    bench.say(Cancel(tasks=[task(2)]))
    assert set(bench.results()) == {task(2), task(3)}
    bench.done(1, task(1))
    assert bench.results() == {task(1): OK}
    bench.submit(4)
    bench.submit(5, deps=[task(4)])
    bench.say(Cancel(tasks=[task(5)]))
    bench.done(1, task(4), outcome=Outcome.ERROR)
    assert set(bench.results()) == {task(4)}


def test_a_call_that_fails_by_two_inputs_fails_once() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(num_returns=2))
    bench.submit(3, deps=[task(1), task(2)])
    bench.done(1, task(1), value=b"oops", outcome=Outcome.ERROR)
    assert bench.results() == {task(1): (Outcome.ERROR, b"oops"), task(3): (Outcome.ERROR, b"oops")}


def several(bench: Bench, *more: bytes) -> None:
    """Task 1 returns three values, of which 11, 12 and 13 need one each."""
    bench.submit(1, options=TaskOptions(num_returns=3))
    for offset in range(3):
        bench.submit(11 + offset, deps=[task(1 + offset)])
    parts = tuple(Result(task(2 + offset), value) for offset, value in enumerate(more))
    bench.tell(1, Done(sequence=1, results=[Result(task(1), b"first", Outcome.OK, parts)], run_s=0.2))


def inputs(bench: Bench) -> dict[TaskId, list[Result]]:
    return {call.id: run.inputs for _, run in bench.runs() for call in run.calls}


def test_several_values() -> None:
    bench = Bench(seats=3)
    several(bench, b"second", b"third", b"one too many")
    assert inputs(bench) == {
        task(11): [Result(task(1), b"first")],
        task(12): [Result(task(2), b"second")],
        task(13): [Result(task(3), b"third")],
    }
    bench.submit(14, deps=[task(3)])
    for engine, number in ((1, 11), (2, 12), (3, 13)):
        bench.sequences[engine] = 1
        bench.done(engine, task(number), run_s=0.2)
    bench.done(1, task(14))
    bench.acknowledge(10)
    assert not any(sizes(bench.scheduler).values())


def test_a_value_that_is_not_given_is_missing() -> None:
    bench = Bench(seats=3)
    several(bench, b"second")
    assert set(inputs(bench)) == {task(11), task(12)}
    assert bench.results()[task(13)] == (Outcome.ERROR, b"unknown object %d" % task(3))


def test_children_pass_to_their_grandparent() -> None:
    bench = Bench(seats=3)
    bench.attach(BERT)
    bench.submit(1)
    bench.submit(2, client=BERT, parent=task(1))
    bench.submit(3, client=BERT, parent=task(2, BERT))
    bench.done(2, task(2, BERT))
    bench.say(Cancel(tasks=[task(1)]))
    assert board_of(bench.scheduler).tasks[task(3, BERT)].cancelling


def test_children_of_a_task_without_parent_are_left_to_themselves() -> None:
    bench = Bench(seats=3)
    bench.submit(1)
    bench.submit(2, 3, parent=task(1))
    bench.done(1, task(1))
    bench.submit(4, parent=task(1))
    bench.say(Cancel(tasks=[task(1)]))
    assert bench.sent(Interrupt) == [(1, Interrupt(task=task(4)))]
    for engine, number in ((2, 2), (3, 3), (1, 4)):
        bench.done(engine, task(number))
    bench.acknowledge(9)
    assert not any(sizes(bench.scheduler).values())


def test_a_pinned_task_that_waits_is_withdrawn_from_its_seat() -> None:
    bench = Bench(seats=1)
    bench.pin(1, [0])
    bench.pin(2, [0])
    bench.pin(3, [0])
    bench.say(Cancel(tasks=[task(2)]))
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(3)]}


def test_a_pinned_task_that_waits_for_input_when_its_seat_goes_fails() -> None:
    bench = Bench(seats=2)
    bench.submit(1)
    bench.exit(2)
    bench.pin(2, [1], deps=[task(1)])
    bench.say(Scale(seats=1))
    assert bench.results() == {task(2): (Outcome.ERROR, b"no rank 1 of 1")}
    bench.done(1, task(1))
    bench.acknowledge(9)
    assert not any(sizes(bench.scheduler).values())


def test_what_a_client_has_not_asked_for_again_waits_as_an_orphan() -> None:
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
    holds = [task(1), task(2)]
    bench.handle(EngineAttached(engine=1, rank=0, pid=1, received=2, holds=holds, running=True))
    bench.done(1, task(1))
    assert set(board_of(bench.scheduler).orphans) == {task(1)}
    bench.say(Cancel(tasks=[task(2)]))
    bench.say(Cancel(tasks=[task(2)]))
    bench.exit(1)
    assert board_of(bench.scheduler).tasks == {}
    assert bench.results() == {}
    assert set(board_of(bench.scheduler).orphans) == {task(1)}
    bench.submit(1)
    assert bench.results() == {task(1): OK}


def test_a_group_without_ties_closes_by_itself() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.done(1, task(1))
    assert board_of(bench.scheduler).groups == {}


def test_a_value_that_no_message_can_hold_fails_those_who_wait_for_it() -> None:
    bench = Bench(seats=1, settings=CoreSettings(max_call_bytes=1000))
    bench.submit(1)
    bench.submit(2, deps=[task(1)])
    bench.done(1, task(1), value=b"x" * 2000)
    assert bench.results() == {task(1): (Outcome.OK, b"x" * 2000), task(2): (Outcome.ERROR, b"too large: 2004 of 1000")}


# ---- objects ---------------------------------------------------------------------------------------------


def test_what_a_task_names_is_kept_until_it_ends() -> None:
    bench = Bench(seats=1)
    bench.say(PutObjects(objects=[Result(task(1), b"", blocks=(7,)), Result(task(2), b"", blocks=(8,))]))
    bench.submit(3, deps=[task(1)], refs=[task(1), task(2)])
    bench.say(Release(objects=[task(1), task(2)]))
    assert bench.blocks() == ([], [])
    bench.answer(1, Result(task(3), b"[ref]", refs=(task(2),)))
    assert bench.blocks() == ([], [7])
    bench.say(Release(objects=[task(3)]))
    assert bench.blocks() == ([], [8])


def test_a_value_that_comes_twice_is_kept_once() -> None:
    bench = Bench(seats=1)
    bench.say(PutObjects(objects=[Result(task(1), b"", blocks=(7,))]))
    bench.say(PutObjects(objects=[Result(task(1), b"", blocks=(7,))]))
    assert bench.blocks() == ([], [])
    bench.say(PutObjects(objects=[Result(task(1), b"", blocks=(8,))]))
    assert bench.blocks() == ([], [8])


def test_a_task_of_nobody_gives_its_values_to_those_who_need_them() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.submit(1, options=TaskOptions(num_returns=2))
    bench.say(Fetch(objects=[task(2)]), client=BERT)
    bench.say(Goodbye())
    bench.answer(1, Result(task(1), b"one", blocks=(7,), more=(Result(task(2), b"two", blocks=(8,)),)))
    assert bench.results(BERT) == {task(2): (Outcome.OK, b"two")}
    assert bench.blocks() == ([8], [7])


def restarted(*holds: TaskId) -> Bench:
    bench = Bench(seats=0)
    bench.attach(BERT)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
    bench.handle(EngineAttached(engine=1, rank=0, pid=1, received=len(holds), holds=list(holds), running=True))
    return bench


def test_others_get_the_value_of_a_task_whose_client_is_not_back() -> None:
    bench = restarted(task(1))
    bench.say(Fetch(objects=[task(1), task(2)]), client=BERT)
    bench.answer(1, Result(task(1), b"one", blocks=(7,), more=(Result(task(2), b"two", blocks=(8,)),)))
    assert bench.results(BERT) == {task(1): (Outcome.OK, b"one"), task(2): (Outcome.OK, b"two")}
    assert bench.blocks() == ([7, 8], [])
    bench.wait(200.0)
    assert board_of(bench.scheduler).objects.blocks == {7: 1, 8: 1}


def test_they_get_it_even_if_that_one_never_comes_back() -> None:
    bench = restarted(task(1))
    bench.say(Fetch(objects=[task(1)]), client=BERT)
    bench.wait(200.0)
    bench.done(1, task(1))
    assert bench.results(BERT) == {task(1): OK}
    assert board_of(bench.scheduler).orphans == {}


def test_and_hear_of_it_when_its_engine_dies_then() -> None:
    bench = restarted(task(1))
    bench.say(Fetch(objects=[task(1)]), client=BERT)
    bench.wait(200.0)
    bench.exit(1)
    assert bench.results(BERT) == {task(1): (Outcome.ERROR, b"died 0 local -9  ")}


def test_values_that_are_made_again_are_given_to_those_who_need_them() -> None:
    for outcome, said in ((Outcome.OK, b"unknown object %d" % task(2)), (Outcome.ERROR, b"oops")):
        bench = Bench(seats=1)
        bench.submit(1, options=TaskOptions(num_returns=2))
        bench.answer(1, Result(task(1), b"one", blocks=(7,), more=(Result(task(2), b"two", blocks=(8,)),)))
        bench.say(Fetch(objects=[task(1), task(2)], lost=[7, 8]))
        bench.answer(1, Result(task(1), b"oops", outcome))
        assert bench.results()[task(2)] == (Outcome.ERROR, said)
        assert set(board_of(bench.scheduler).answers) == {task(1), task(2)}
        bench.say(Release(objects=[task(1), task(2)]))
        bench.acknowledge(9)
        assert not any(sizes(bench.scheduler).values())


def test_a_value_that_only_a_lineage_names_is_kept_for_that() -> None:
    bench = Bench(seats=2)
    bench.submit(1)
    bench.submit(2, refs=[task(1)])
    bench.answer(2, Result(task(2), b"", blocks=(7,)))
    bench.done(1, task(1))
    assert board_of(bench.scheduler).objects.entries[task(1)].result == Result(task(1), b"value")
    bench.say(Release(objects=[task(2)]))
    assert board_of(bench.scheduler).objects.entries == {}


def test_items_that_a_stream_does_not_give_again_are_missing() -> None:
    for outcome, said in ((Outcome.OK, b"unknown object %d" % task(1)), (Outcome.ERROR, b"oops")):
        bench = Bench(seats=1)
        bench.submit(0, options=TaskOptions(num_returns=STREAMING))
        bench.answer(1, Result(task(1), b"", blocks=(7,)), Result(task(0), b"1"))
        bench.say(Fetch(objects=[task(1)], lost=[7]))
        bench.answer(1, Result(task(0), b"oops", outcome))
        assert bench.results() == {task(1): (Outcome.ERROR, said)}


def test_a_call_of_an_actor_that_ends_while_it_waits_holds_up_others_no_more() -> None:
    bench = Bench(seats=1)
    bench.say(CreateActor(actor=task(9), function=F, args=b"make"))
    bench.seat_all()
    bench.done(2, task(9))
    assert board_of(bench.scheduler).objects.entries[task(9)].result == Result(task(9), b"value")
    bench.submit(5)
    calls = [Call(task(1), b"", (task(5),)), Call(task(2), b"")]
    bench.say(CallActor(actor=task(9), function=G, calls=calls))
    assert bench.calls() == {}
    bench.say(Cancel(tasks=[task(1)]))
    assert bench.calls() == {2: [task(2)]}
