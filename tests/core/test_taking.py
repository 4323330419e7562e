from fibernb.core.events import ClientAttached, ClientGone, EngineAttached, LiveEngine, RecoverFrom
from fibernb.core.messages import (
    Blocked,
    CallActor,
    Cancel,
    CreateActor,
    Done,
    Fetch,
    Output,
    PutObjects,
    Ran,
    Remember,
    Scale,
    Started,
)
from fibernb.core.states import SeatState, TaskState
from fibernb.model import STREAMING, ActorOptions, Call, Outcome, Resources, Result, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, F, G, task
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
        bench.done(1, task(1), outcome=Outcome.RETRY)
        assert bench.results() == {}
        assert bench.calls() == {1: [task(1)]}
    bench.done(1, task(1), outcome=Outcome.RETRY, value=b"oops")
    assert bench.results() == {task(1): (Outcome.ERROR, b"oops")}


def test_lost_inputs_are_made_again_before_the_task_runs() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.answer(1, Result(task(1), b"", blocks=(7,)))
    bench.pin(2, [0], deps=[task(1)])
    bench.submit(3, deps=[task(1)])
    bench.answer(1, Result(task(2), b"", Outcome.LOST, (), (7,)))
    assert bench.calls() == {1: [task(1)]}
    bench.answer(1, Result(task(1), b"", blocks=(8,)))
    assert bench.calls() == {1: [task(2)]}
    assert [run.inputs for _, run in bench.runs()] == [[Result(task(1), b"", blocks=(8,))]]
    bench.done(1, task(2))
    bench.answer(1, Result(task(3), b"", Outcome.LOST, (), (8,)))
    assert bench.calls() == {1: [task(1)]}
    bench.answer(1, Result(task(1), b"", blocks=(9,)))
    assert bench.calls() == {1: [task(3)]}
    assert board_of(bench.scheduler).tasks[task(3)].attempts == 0


def test_inputs_that_only_the_engine_misses_cost_an_attempt() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(max_retries=1))
    bench.answer(1, Result(task(1), b"", Outcome.LOST, (), (7,)))
    assert bench.calls() == {1: [task(1)]}
    bench.answer(1, Result(task(1), b"", Outcome.LOST, (), (7,)))
    lost = b"object %d lost: arguments of the call are gone: call it again" % task(1)
    assert bench.results() == {task(1): (Outcome.ERROR, lost)}


def test_arguments_that_are_lost_fail_the_task() -> None:
    bench = Bench(seats=1)
    bench.say(PutObjects(objects=[Result(task(9), b"", blocks=(7,))]))
    bench.submit(1, refs=[task(9)])
    bench.answer(1, Result(task(1), b"", Outcome.LOST, (), (7,)))
    assert bench.results() == {
        task(1): (Outcome.ERROR, b"object %d lost: arguments of the call are gone: call it again" % task(9))
    }


def test_a_cancelled_task_is_not_tried_again() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=AGAIN)
    bench.say(Cancel(tasks=[task(1)]))
    bench.done(1, task(1), outcome=Outcome.RETRY)
    assert bench.results() == {task(1): (Outcome.CANCELLED, b"cancelled: it was cancelled")}


def test_resources_come_back_with_the_result() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(resources=Resources(milli_gpus=1500)))
    bench.done(1, task(1))
    assert board_of(bench.scheduler).nodes["local"].stock.devices.used() == 0


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


def test_calls_given_back_wait_for_what_was_lost_meanwhile() -> None:
    bench = Bench(seats=2)
    bench.learn(1e-3)
    bench.submit(5)
    bench.answer(1, Result(task(5), b"", blocks=(7,)), run_s=0.001)
    bench.pin(99, [1])
    bench.submit(1, 2, deps=[task(5)])
    bench.pin(100, [0])
    bench.say(Fetch(objects=[task(5)], lost=[7]))
    bench.recalled(1, 3, 4)
    waiting = board_of(bench.scheduler).tasks[task(2)]
    assert (waiting.state, waiting.blockers) == (TaskState.WAITING, 1)


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


def test_after_a_restart_what_is_to_be_tried_again_is_submitted_again() -> None:
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
    holds = [task(1)]
    bench.handle(EngineAttached(engine=1, rank=0, pid=1, received=1, holds=holds, running=True, redelivers=1))
    bench.answer(1, Result(task(1), b"oops", Outcome.RETRY), Result(task(2), b"", Outcome.LOST, (), (7,)))
    board = board_of(bench.scheduler)
    assert (board.tasks, board.orphans) == ({}, {})
    bench.submit(1)
    assert bench.calls() == {1: [task(1)]}


def test_blocks_of_results_that_nobody_needs_are_freed() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2)
    bench.say(Cancel(tasks=[task(2)]))
    more = (Result(task(3), b"", blocks=(9,)),)
    bench.answer(1, Result(task(1), b"", Outcome.RETRY, (), (7,)), Result(task(2), b"", blocks=(8,), more=more))
    assert bench.blocks() == ([], [7, 8, 9])


def test_what_a_passed_over_call_has_lost_is_nothing_to_free() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2)
    bench.say(Cancel(tasks=[task(2)]))
    bench.answer(1, Result(task(1), b""), Result(task(2), b"", Outcome.LOST, (), (7,)))
    assert bench.blocks() == ([], [])


def test_items_of_streams_are_no_tasks() -> None:
    bench = Bench(seats=1)
    bench.submit(0, options=TaskOptions(num_returns=STREAMING))
    bench.answer(1, Result(task(1), b"item"))
    board = board_of(bench.scheduler)
    assert board.history.total == 0
    bench.answer(1, Result(task(2), b"item"), Result(task(0), b"2"), run_s=0.3)
    assert board.functions.by_digest[F].run_s == 0.3
    assert [list(span.ids) for span in board.history.newest_first()] == [[task(0)]]


def test_calls_of_an_actor_may_be_answered_in_any_order() -> None:
    bench = Bench(seats=1)
    options = ActorOptions(max_concurrency=2)
    bench.say(CreateActor(actor=task(9), function=F, args=b"make", options=options))
    bench.seat_all()
    bench.done(2, task(9))
    bench.say(CallActor(actor=task(9), function=G, calls=[Call(task(number), b"") for number in (1, 2)]))
    bench.done(2, task(2))
    bench.done(2, task(1))
    assert bench.results() == {task(1): (Outcome.OK, b"value")}


def test_a_task_that_has_waited_is_seen_to_be_over() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(Blocked(task=task(1)))
    assert board_of(bench.scheduler).engines[1].blocked.keys() == {task(1)}
    bench.done(1, task(1))
    assert board_of(bench.scheduler).engines[1].blocked == {}


def test_an_engine_that_has_run_a_function_often_enough_goes() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(max_calls=1))
    bench.done(1, task(1))
    assert board_of(bench.scheduler).engines[1].worn
    assert board_of(bench.scheduler).seats[0].state not in (SeatState.IDLE, SeatState.BUSY)


def test_what_ran_when_is_noted() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2)
    bench.tell(1, Done(sequence=2, results=[Result(task(1), b""), Result(task(2), b"", Outcome.ERROR)], began_s=5.0))
    span = next(board_of(bench.scheduler).history.newest_first())
    assert (span.engine, span.rank, span.function, span.began_s) == (1, 0, "f", 5.0)
    assert (list(span.ids), span.failed) == ([task(1), task(2)], (task(2),))


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


def test_calls_that_clients_have_sent_themselves_count() -> None:
    bench = Bench(seats=1)
    bench.tell(1, Ran(tasks=[task(1), task(2)], name="f", run_s=0.1, began_s=1.0))
    assert bench.status().finished == 2
    assert board_of(bench.scheduler).history.total == 1
    assert board_of(bench.scheduler).engines[1].productive


def test_a_seat_that_runs_them_is_not_idle() -> None:
    bench = Bench(seats=1)
    seat = board_of(bench.scheduler).seats[0]
    bench.now += 1.0
    bench.tell(1, Ran(tasks=[], name="", run_s=0.0, began_s=0.0))
    assert seat.since == 101.0
    bench.submit(1)
    bench.now += 1.0
    bench.tell(1, Ran(tasks=[], name="", run_s=0.0, began_s=0.0))
    assert seat.since == 101.0, "it has been busy since then"
