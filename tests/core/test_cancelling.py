from fibernb.core.events import EngineUnreachable
from fibernb.core.messages import Cancel, Goodbye, Interrupt, InterruptRanks, Scale, Started
from fibernb.model import Outcome
from tests.core.bench import BERT, Bench, task
from tests.core.invariants import board_of, sizes
from tests.core.test_acting import A, call, create, make

CANCELLED = (Outcome.CANCELLED, b"cancelled: it was cancelled")


def replaced(reason: str) -> tuple[Outcome, bytes]:
    """The answer of a cancelled task whose engine had to end, for this reason."""
    text = f"cancelled: it was cancelled, and its engine was replaced: {reason} (replaced)"
    return Outcome.CANCELLED, text.encode()


def cancel(bench: Bench, *numbers: int, force: bool = False, recursive: bool = True) -> None:
    bench.say(Cancel(tasks=[task(number) for number in numbers], force=force, recursive=recursive))


def interrupts(bench: Bench) -> list[tuple[int, int]]:
    return [(engine, message.task) for engine, message in bench.sent(Interrupt)]


def test_what_has_not_been_sent_just_ends() -> None:
    bench = Bench(seats=1)
    bench.submit(1, 2, 3)
    bench.submit(4, deps=[task(1)])
    cancel(bench, 3, 4, 99)
    assert bench.results() == {task(3): CANCELLED, task(4): CANCELLED}
    assert interrupts(bench) == []
    bench.done(1, task(1))
    assert bench.calls()[1] == [task(2)]


def test_what_has_not_begun_ends_and_leaves_a_gravestone() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, 3)
    cancel(bench, 2)
    assert bench.results() == {task(2): CANCELLED}
    assert interrupts(bench) == [(1, task(2))]
    cancel(bench, 2)
    assert bench.commands == []
    bench.done(1, task(1), task(2), task(3))
    assert set(bench.results()) == {task(1), task(3)}


def test_what_runs_is_interrupted_and_answers_itself() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    cancel(bench, 1)
    assert interrupts(bench) == [(1, task(1))]
    assert bench.results() == {}
    bench.done(1, task(1), outcome=Outcome.CANCELLED, value=b"KeyboardInterrupt")
    assert bench.results() == {task(1): (Outcome.CANCELLED, b"KeyboardInterrupt")}
    assert bench.kills() == []
    bench.wait(10.0)
    assert bench.kills() == []


def test_what_does_not_stop_loses_its_engine() -> None:
    bench = Bench(seats=1)
    bench.submit(1, 2)
    cancel(bench, 1)
    bench.wait(2.9)
    assert bench.kills() == []
    bench.wait(0.2)
    assert bench.kills() == [1]
    bench.exit(1)
    assert bench.results() == {task(1): replaced("an interrupted task did not stop within 3 s")}
    assert bench.starts() == [0]
    bench.seat_all()
    assert bench.calls() == {2: [task(2)]}


def test_a_second_cancel_kills_at_once() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    cancel(bench, 1)
    cancel(bench, 1)
    assert bench.kills() == [1]
    cancel(bench, 1)
    assert bench.kills() == []


def test_force_kills_at_once_but_only_for_what_runs() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, 3)
    cancel(bench, 2, force=True)
    assert bench.kills() == []
    cancel(bench, 1, force=True)
    assert bench.kills() == [1]
    bench.exit(1)
    assert bench.results() == {task(1): replaced("a task that was cancelled had to be stopped")}
    bench.seat_all()
    assert bench.calls() == {2: [task(3)]}


def test_a_gravestone_that_comes_first_has_the_grace_too() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2)
    cancel(bench, 2)
    bench.wait(60.0)
    assert bench.kills() == []
    bench.done(1, task(1))
    bench.wait(2.0)
    bench.submit(3)
    bench.wait(1.1)
    assert bench.kills() == [1]


def test_each_interrupted_task_has_a_grace_of_its_own() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, 3)
    cancel(bench, 1, 2)
    bench.wait(2.0)
    bench.done(1, task(1), outcome=Outcome.CANCELLED)
    bench.wait(2.0)
    assert bench.kills() == []
    bench.done(1, task(2), outcome=Outcome.CANCELLED)
    bench.wait(60.0)
    assert bench.kills() == []


def test_a_task_that_is_known_to_have_begun_is_interrupted_not_buried() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2)
    bench.tell(1, Started(position=2))
    cancel(bench, 2)
    assert bench.results() == {}
    assert interrupts(bench) == [(1, task(2))]


def test_whole_trees_are_cancelled() -> None:
    bench = Bench(seats=2)
    bench.attach(BERT)
    bench.submit(1)
    bench.submit(2, client=BERT, parent=task(1))
    bench.submit(3, 4, client=BERT, parent=task(2, BERT))
    bench.submit(5, parent=task(3, BERT))
    cancel(bench, 1)
    assert sorted(interrupts(bench)) == [(1, task(1)), (2, task(2, BERT))]
    assert bench.results() == {task(5): CANCELLED}
    assert bench.results(BERT) == {task(3, BERT): CANCELLED, task(4, BERT): CANCELLED}


def test_or_just_one_task_of_it() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.submit(2, parent=task(1))
    cancel(bench, 1, recursive=False)
    assert bench.results() == {}


def test_a_task_below_two_that_are_cancelled_is_cancelled_once() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.submit(2, parent=task(1))
    cancel(bench, 1, 2)
    assert bench.results() == {task(2): CANCELLED}


def test_a_million_may_be_cancelled_at_once() -> None:
    bench = Bench(seats=0)
    bench.submit(*range(5000))
    cancel(bench, *range(5000))
    assert len(bench.results()) == 5000
    bench.acknowledge(1)
    assert not any(sizes(bench.scheduler).values())


def test_ranks_are_interrupted_with_what_runs_there() -> None:
    bench = Bench(seats=3)
    bench.pin(1, [0, 1])
    bench.submit(10, parent=task(1))
    bench.submit(11, parent=task(1))
    bench.say(InterruptRanks(ranks=[0, 2, 9]))
    assert (1, task(1)) in interrupts(bench)
    assert set(bench.results()) == {task(11)}
    bench.exit(2)
    bench.say(InterruptRanks(ranks=[1]))
    assert interrupts(bench) == []


def test_a_recalled_gravestone_is_not_waited_for() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2)
    bench.pin(3, [0])
    cancel(bench, 2)
    bench.recalled(1, 2, 3)
    assert board_of(bench.scheduler).interrupted == {}
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(3)]}


def test_an_engine_that_is_told_to_end_is_watched_no_more() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    cancel(bench, 1)
    bench.handle(EngineUnreachable(engine=1))
    assert bench.kills() == [1]
    bench.wait(60.0)
    assert bench.kills() == []
    bench.exit(1)
    assert bench.results() == {task(1): replaced("its link broke")}


def test_what_nobody_waits_for_is_abandoned() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.submit(1, 2)
    bench.say(Goodbye())
    assert interrupts(bench) == [(1, task(1))]
    assert board_of(bench.scheduler).tasks == {}
    bench.wait(3.0)
    assert bench.kills() == [1], "a gravestone that does not answer"


def test_an_engine_that_was_killed_is_told_no_more() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.submit(1, client=BERT)
    for _ in range(2):
        bench.say(Cancel(tasks=[task(1, BERT)]))
    assert bench.kills() == [1]
    bench.say(Goodbye(), client=BERT)
    assert interrupts(bench) == []


def test_a_process_is_not_interrupted_but_ended_when_its_client_has_gone() -> None:
    bench = Bench(seats=0)
    bench.attach(BERT)
    engine = make(bench, task(500_000, BERT), BERT, is_process=True)
    call(bench, 1, actor=task(500_000, BERT), client=BERT)
    bench.say(Goodbye(), client=BERT)
    assert interrupts(bench) == []
    assert bench.kills() == []
    bench.wait(1.0)
    assert bench.kills() == [engine]


def test_an_engine_that_drains_can_be_killed() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(Scale(seats=0))
    cancel(bench, 1)
    cancel(bench, 1)
    assert bench.kills() == [1]
    bench.done(1, task(1), outcome=Outcome.CANCELLED)
    bench.exit(1)
    assert board_of(bench.scheduler).seats == {}


def test_an_engine_that_was_told_to_exit_can_still_be_killed() -> None:
    bench = Bench(seats=1)
    bench.say(Scale(seats=0))
    bench.wait(3.0)
    assert bench.kills() == [1]


def test_calls_of_an_actor_are_interrupted_but_its_engine_stays() -> None:
    bench = Bench()
    create(bench)
    started = bench.commands
    bench.say(Cancel(tasks=[A]))
    bench.seat_all(started)
    [(engine, _)] = bench.runs()
    bench.done(engine, A)
    call(bench, 1, 2)
    bench.say(Cancel(tasks=[task(1), task(2)]))
    assert bench.sent(Interrupt) == [(engine, Interrupt(task=task(2))), (engine, Interrupt(task=task(1)))]
    bench.say(Cancel(tasks=[task(1)]))
    bench.wait(10.0)
    assert not bench.kills()
    bench.say(Cancel(tasks=[task(1)], force=True))
    assert bench.kills() == [engine]
