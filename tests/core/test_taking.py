from fibernb.core.events import ClientAttached, ClientGone, EngineAttached, LiveEngine, RecoverFrom
from fibernb.core.messages import Cancel, Done, Output, Remember, Scale, Started
from fibernb.core.taking import release_resources
from fibernb.model import Outcome, Resources, Result, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, F, task
from tests.core.invariants import board_of, sizes

AGAIN = TaskOptions(max_retries=2, retry_exceptions=True)


def test_a_message_that_has_come_before_is_ignored() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    done = Done(sequence=1, results=[Result(task(1), b"value")], run_s=0.1)
    bench.tell(1, done)
    assert set(bench.results()) == {task(1)}
    bench.tell(1, done)
    assert bench.results() == {}
    assert bench.status().refused == 1


def test_run_times_are_learned_for_each_function() -> None:
    bench = Bench(seats=1)
    bench.submit(1, 2)
    bench.done(1, task(1), run_s=0.25)
    functions = board_of(bench.scheduler).functions.by_digest
    assert functions[F].run_s == 0.25


def test_results_in_another_order_find_their_tasks() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, 3)
    bench.done(1, task(2), task(1), task(3))
    assert set(bench.results()) == {task(1), task(2), task(3)}


def test_gravestones_that_were_passed_over_go() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, 3, 4)
    bench.say(Cancel(tasks=[task(2)]))
    assert set(bench.results()) == {task(2)}
    bench.done(1, task(1))
    bench.done(1, task(3))
    assert set(bench.results()) == {task(3)}
    bench.done(1, task(4))
    bench.acknowledge(99)
    assert not any(sizes(bench.scheduler).values())


def test_the_answer_of_a_gravestone_is_dropped() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2)
    bench.say(Cancel(tasks=[task(2)]))
    bench.done(1, task(1), task(2), outcome=Outcome.CANCELLED)
    assert set(bench.results()) == {task(1)}
    bench.acknowledge(99)
    assert not any(sizes(bench.scheduler).values())


def test_strangers_are_ignored() -> None:
    bench = Bench(seats=1)
    bench.done(1, task(5))
    bench.done(77, task(5))
    assert bench.results() == {}
    assert bench.status().refused == 1
    assert board_of(bench.scheduler).engines[1].receipts.forget == 1


def test_a_queued_task_that_turns_out_to_have_run_is_over() -> None:
    for outcome in (Outcome.OK, Outcome.ERROR):
        bench = Bench(seats=1)
        bench.pin(9, [0])
        bench.submit(1)
        bench.done(1, task(1), outcome=outcome)
        assert set(bench.results()) == {task(1)}
        bench.done(1, task(9))
        assert bench.calls() == {}


def test_a_task_of_another_engine_is_not_ended() -> None:
    bench = Bench(seats=2)
    bench.submit(1)
    bench.done(2, task(1))
    assert bench.results() == {}


def test_errors_are_tried_again_where_asked() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=AGAIN)
    for _ in range(2):
        bench.done(1, task(1), outcome=Outcome.ERROR)
        assert bench.results() == {}
        assert bench.calls() == {1: [task(1)]}
    bench.done(1, task(1), outcome=Outcome.ERROR, value=b"oops")
    assert bench.results() == {task(1): (Outcome.ERROR, b"oops")}


def test_a_cancelled_task_is_not_tried_again() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=AGAIN)
    bench.say(Cancel(tasks=[task(1)]))
    bench.done(1, task(1), outcome=Outcome.ERROR)
    assert set(bench.results()) == {task(1)}


def test_resources_come_back_with_the_result() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(resources=Resources(milli_gpus=1500)))
    bench.done(1, task(1))
    assert board_of(bench.scheduler).nodes["local"].milli_gpus == 0


def test_a_node_that_is_gone_gets_nothing_back() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(resources=Resources(milli_gpus=1500)))
    board = board_of(bench.scheduler)
    engine = board.engines[1]
    board.nodes.clear()
    release_resources(board, engine, engine.line[0])
    assert board.nodes == {}


def test_signs_of_life() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, 3)
    engine = board_of(bench.scheduler).engines[1]
    bench.now += 1.0
    bench.tell(1, Started(position=2))
    assert (engine.started, engine.since) == (2, bench.now)
    bench.now += 1.0
    bench.tell(1, Started(position=1), Started(position=99))
    assert engine.started == 2
    assert bench.status().engines[0].task == task(2)


def test_calls_given_back_keep_their_order() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(*range(4))
    bench.pin(100, [0])
    bench.say(Cancel(tasks=[task(2)]))
    bench.recalled(1, 2, 5)
    group = board_of(bench.scheduler).plain.current()
    assert group is not None
    assert [each.id for each in group.ready] == [task(1), task(3)]
    bench.done(1, task(0))
    assert bench.calls() == {1: [task(100)]}


def test_what_a_task_says_goes_to_its_client() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.submit(1)
    said = Output(task=task(1), rank=0, sequence=0, stream="stdout", text="hello")
    bench.tell(1, said)
    assert bench.told(ANNA, Output) == [said]
    assert bench.told(BERT, Output) == []
    bench.tell(1, Output(task=task(1, 99), rank=0, sequence=0, stream="stdout", text="for a stranger"))
    assert bench.commands == []


def test_what_an_engine_says_goes_to_all() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.attach(7)
    bench.attach(8, engine=1)
    bench.handle(ClientGone(client=7))
    said = Output(task=0, rank=0, sequence=0, stream="stdout", text="hello")
    bench.tell(1, said)
    assert [len(bench.told(client, Output)) for client in (ANNA, BERT, 7, 8)] == [1, 1, 0, 0]


def test_what_is_said_while_the_client_is_away_waits() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.handle(ClientGone(client=ANNA))
    said = Output(task=task(1), rank=0, sequence=0, stream="stdout", text="hello")
    bench.tell(1, said)
    assert bench.commands == []
    bench.handle(ClientAttached(client=ANNA, lease_s=60.0))
    assert bench.told(ANNA, Output) == [said]


def test_a_namespace_that_cannot_be_restored_is_told() -> None:
    bench = Bench(seats=1)
    bench.say(Remember(keys=("a",), function=F, args=[b"x"]))
    bench.submit(1)
    bench.exit(1)
    bench.seat_all()
    assert bench.calls() == {2: [1]}
    bench.done(2, 1, outcome=Outcome.ERROR)
    assert bench.calls() == {2: [task(1)]}
    assert bench.status().problem == "a part of the namespace could not be restored on rank 0"


def test_after_a_restart_results_may_come_before_their_clients() -> None:
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
    bench.handle(EngineAttached(engine=1, rank=0, pid=1, redelivers=2))
    bench.done(1, task(1))
    bench.done(1, task(1))
    assert set(board_of(bench.scheduler).orphans) == {task(1)}


def test_a_namespace_that_is_restored_is_nothing_to_tell() -> None:
    bench = Bench(seats=0)
    bench.say(Remember(keys=("a",), function=F, args=[b"x"]), Scale(seats=1))
    bench.seat_all()
    bench.done(1, 1)
    assert bench.status().problem == ""


def test_giving_back_fewer_tells_what_has_begun() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, 3)
    bench.pin(9, [0])
    bench.recalled(1, 3, 4)
    assert board_of(bench.scheduler).engines[1].started == 2
    bench.recalled(1, 4, 4)
    assert bench.results() == {}


def test_calls_given_back_may_go_to_an_idle_engine() -> None:
    bench = Bench(seats=2)
    bench.learn(1e-3)
    bench.pin(9, [1])
    bench.submit(1, 2, 3)
    bench.done(2, task(9))
    bench.wait(1.0)
    bench.recalled(1, 2, 4)
    assert bench.calls() == {2: [task(2), task(3)]}


def test_strangers_say_nothing() -> None:
    bench = Bench(seats=1)
    bench.tell(1, Output(task=task(1, 99), rank=0, sequence=0, stream="stdout", text="x"))
    assert bench.commands == []
