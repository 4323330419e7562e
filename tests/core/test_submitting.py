from fibernb.core.commands import FreeBlocks
from fibernb.core.events import EngineAttached, LiveEngine, RecoverFrom
from fibernb.core.messages import (
    CallActor,
    Cancel,
    CreateActor,
    DefineFunction,
    Done,
    Interrupt,
    PutObjects,
    Release,
    Remember,
    Scale,
    Submit,
    SubmitPinned,
)
from fibernb.core.settings import CoreSettings
from fibernb.core.submitting import BEGUN
from fibernb.model import STREAM_IDS, STREAMING, Call, Outcome, Resources, Result, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, F, G, of, task
from tests.core.invariants import board_of, sizes
from tests.core.test_acting import A, make

GPU = TaskOptions(resources=Resources(milli_gpus=1000))
THREE_CPUS = TaskOptions(resources=Resources(milli_cpus=3000))


def test_a_call_is_sent_and_answered() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    ((engine, run),) = bench.runs()
    assert (run.function, run.calls, run.position, run.code) == (F, [Call(task(1), b"args")], 0, b"code of f")
    bench.done(engine, task(1))
    assert bench.results() == {task(1): (Outcome.OK, b"value")}
    bench.acknowledge(1)
    assert not any(sizes(bench.scheduler).values())


def test_code_is_sent_once_an_engine() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.done(1, task(1))
    bench.submit(2)
    assert bench.runs()[0][1].code is None


def test_defining_a_function_twice_counts_once() -> None:
    bench = Bench()
    bench.say(DefineFunction(digest=F, code=b"code of f", name="f"))
    assert board_of(bench.scheduler).functions.by_digest[F].users == 1


def test_calls_that_come_again_are_known() -> None:
    bench = Bench(seats=1)
    bench.submit(1, 2)
    bench.submit(1, 2)
    bench.done(1, task(1))
    bench.submit(1, 2)
    bench.submit(1)
    assert bench.commands == []


def test_an_unknown_function_fails_at_once() -> None:
    bench = Bench()
    for _ in range(2):
        call = Call(task(1), b"")
        bench.say(Submit(function=b"?", calls=[call], options=TaskOptions(name="lost", num_returns=2)))
    bench.say(SubmitPinned(function=b"?", first=task(5), ranks=[0], args=[b""]))
    outcome, value = bench.results()[task(5)]
    assert outcome is Outcome.ERROR
    assert value.startswith(b"refused: the code of the function has not reached")
    bench.acknowledge(2)
    assert not any(sizes(bench.scheduler).values())


def test_what_can_never_run_fails_at_once() -> None:
    bench = Bench(seats=2)
    bench.submit(1, options=THREE_CPUS)
    asked = b"unschedulable: 3 cpus of 2 cpus, 2 gpus, 1,000 bytes of memory, 1 disk"
    assert bench.results() == {task(1): (Outcome.ERROR, asked)}
    bench.submit(2, options=GPU)
    assert bench.calls() == {1: [task(2)]}


def test_while_no_seats_are_declared_everything_waits() -> None:
    bench = Bench(seats=0)
    bench.submit(1, options=THREE_CPUS)
    bench.submit(2)
    assert bench.commands == []
    assert bench.status().pending == ["2 tasks wait for seats, and none are declared: scale up"]


def test_inputs_travel_with_the_call() -> None:
    bench = Bench(seats=1)
    value = Result(task(100), b"a value")
    bench.say(PutObjects(objects=[value]))
    bench.submit(1, deps=[task(100)])
    bench.say(Release(objects=[task(100), task(100), task(555)]))
    assert bench.runs() == []
    bench.done(1, task(1))
    bench.acknowledge(1)
    assert not any(sizes(bench.scheduler).values())


def test_inputs_are_sent_once_a_message() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-5)
    value = Result(task(100), b"a value")
    bench.say(PutObjects(objects=[value]))
    bench.submit(1, 2, deps=[task(100)])
    ((_, run),) = bench.runs()
    assert run.inputs == [value]
    assert [call.deps for call in run.calls] == [(task(100),)] * 2


def test_a_call_waits_for_the_call_that_it_refers_to() -> None:
    bench = Bench(seats=2)
    bench.submit(1)
    bench.submit(2, deps=[task(1)])
    assert bench.runs() == []
    assert bench.status().waiting == 1
    bench.done(1, task(1), value=b"one")
    ((_, run),) = bench.runs()
    assert run.inputs == [Result(task(1), b"one")]


def test_an_answer_that_is_not_acknowledged_can_be_referred_to() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.done(1, task(1), value=b"one")
    bench.submit(2, deps=[task(1)])
    bench.acknowledge(1)
    assert bench.runs() == []
    bench.done(1, task(2))
    bench.acknowledge(2)
    assert not any(sizes(bench.scheduler).values())


def test_calls_with_and_without_inputs_may_come_together() -> None:
    bench = Bench(seats=2)
    calls = [Call(task(1), b""), Call(task(2), b"", (task(1),))]
    bench.say(Submit(function=F, calls=calls))
    assert bench.calls() == {1: [task(1)]}


def test_a_failed_input_fails_the_call() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.done(1, task(1), value=b"oops", outcome=Outcome.ERROR)
    bench.submit(2, deps=[task(1), task(777)])
    assert bench.results() == {task(2): (Outcome.ERROR, b"oops")}


def test_an_unknown_input_fails_the_call() -> None:
    bench = Bench(seats=1)
    bench.submit(2, deps=[task(777)])
    assert bench.results() == {task(2): (Outcome.ERROR, b"unknown object %d" % task(777))}
    bench.submit(3, deps=[task(3)])
    assert bench.results() == {task(3): (Outcome.ERROR, b"unknown object %d" % task(3))}


def test_only_who_put_an_object_releases_it() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.say(PutObjects(objects=[Result(task(100), b"x")]))
    bench.say(Release(objects=[task(100)]), client=BERT)
    bench.submit(1, deps=[task(100)], client=BERT)
    assert bench.calls() == {1: [task(1, BERT)]}


def test_pinned_calls_go_to_their_ranks() -> None:
    bench = Bench(seats=3)
    bench.say(SubmitPinned(function=F, first=task(1), ranks=[2, 0], args=[b"two", b"zero"]))
    assert {engine: run.calls[0].args for engine, run in bench.runs()} == {3: b"two", 1: b"zero"}
    bench.say(SubmitPinned(function=F, first=task(1), ranks=[2, 0], args=[b"two", b"zero"]))
    assert bench.commands == []


def test_a_rank_that_does_not_exist_fails_at_once() -> None:
    bench = Bench(seats=2)
    bench.pin(1, [0, 2, -1])
    assert bench.calls() == {1: [task(1)]}
    assert bench.results() == {
        task(2): (Outcome.ERROR, b"no rank 2 of 2"),
        task(3): (Outcome.ERROR, b"no rank -1 of 2"),
    }
    bench.pin(9, [7])
    bench.acknowledge(2)
    bench.done(1, task(1))
    bench.acknowledge(3)
    assert not any(sizes(bench.scheduler).values())


def test_a_rank_that_drains_takes_no_more() -> None:
    bench = Bench(seats=2)
    bench.pin(1, [1])
    bench.say(Scale(seats=1))
    bench.pin(2, [1])
    assert bench.results() == {task(2): (Outcome.ERROR, b"no rank 1 of 1")}


def test_a_rank_that_is_not_ready_is_waited_for() -> None:
    bench = Bench(seats=0)
    bench.say(Scale(seats=1))
    started = bench.commands
    bench.pin(1, [0])
    assert bench.runs() == []
    bench.commands = started
    bench.seat_all()
    assert bench.calls() == {1: [task(1)]}


def test_pinned_calls_with_a_wrong_number_of_arguments_are_refused() -> None:
    bench = Bench(seats=2)
    for number, args in ((1, []), (5, [b"1", b"2", b"3"])):
        bench.say(SubmitPinned(function=F, first=task(number), ranks=[0, 1], args=args))
        assert [value[:9] for _, value in bench.results().values()] == [b"refused: "] * 2


def test_pinned_calls_have_inputs() -> None:
    bench = Bench(seats=2)
    bench.submit(1)
    bench.pin(2, [0, 1], deps=[task(1)])
    assert bench.runs() == []
    bench.done(1, task(1), value=b"one")
    assert {engine: run.inputs for engine, run in bench.runs()} == {
        1: [Result(task(1), b"one")],
        2: [Result(task(1), b"one")],
    }


def test_several_values_are_objects_of_their_own() -> None:
    bench = Bench(seats=1)
    bench.submit(10, options=TaskOptions(num_returns=3))
    bench.submit(20, deps=[task(12)])
    assert bench.runs() == []
    bench.say(Cancel(tasks=[task(20)]))
    assert board_of(bench.scheduler).part_of == {task(11): task(10), task(12): task(10)}


def test_objects_that_come_back_wake_those_who_wait() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.submit(2, deps=[task(1)])
    bench.say(PutObjects(objects=[Result(task(1), b"early")]))
    assert bench.status().waiting == 0


def test_the_namespace_needs_known_functions_and_arguments() -> None:
    bench = Bench()
    bench.say(
        Remember(keys=("a",), function=b"?", args=[b""]),
        Remember(keys=("a",), function=F, args=[]),
        Remember(keys=("a",), function=F, args=[b"", b""], ranks=[1, 2, 3]),
    )
    assert bench.status().refused == 3
    bench.say(Remember(keys=("a",), function=F, args=[b"1"]))
    bench.say(Remember(keys=("a",), function=F, args=[b"2"]))
    board = board_of(bench.scheduler)
    assert [entry.message.args for entry in board.replay.entries] == [[b"2"]]
    assert bench.told(ANNA, object) == []


def test_what_the_namespace_stands_in_is_kept_as_long_as_it_counts() -> None:
    bench = Bench(seats=1)
    stored = [Result(task(number), b"", blocks=(number,)) for number in (1, 2)]
    bench.say(PutObjects(objects=stored))
    bench.say(Remember(keys=("a",), function=F, args=[b"1"], refs=(task(1), task(2))))
    bench.say(Release(objects=[task(1), task(2)]))
    assert set(board_of(bench.scheduler).objects.entries) == {task(1), task(2)}
    bench.say(Remember(keys=("a",), function=F, args=[b"2"], ranks=[0]))
    assert set(board_of(bench.scheduler).objects.entries) == {task(1), task(2)}, "other ranks have the old one"
    bench.say(Remember(keys=("a",), function=F, args=[b"3"]))
    assert board_of(bench.scheduler).objects.entries == {}
    assert of(bench.commands, FreeBlocks) == [FreeBlocks(blocks=[1, 2])]


def test_a_refused_part_of_the_namespace_keeps_nothing() -> None:
    bench = Bench(seats=1)
    bench.say(Remember(keys=("a",), function=b"?", args=[b"1"], refs=(task(1),)))
    assert board_of(bench.scheduler).objects.entries == {}


def restarted(bench: Bench, *holds: int, redelivers: int = 0) -> None:
    """A hub that was started again; its one engine holds these calls."""
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
    ids = [task(number) for number in holds]
    bench.handle(
        EngineAttached(engine=1, rank=0, pid=1, received=len(ids), holds=ids, running=True, redelivers=redelivers)
    )


def test_after_a_restart_calls_find_their_results() -> None:
    bench = Bench(seats=0)
    restarted(bench, redelivers=1)
    bench.done(1, task(1))
    bench.submit(1, 2)
    assert bench.results() == {task(1): (Outcome.OK, b"value")}
    assert bench.calls() == {1: [task(2)]}


def test_after_a_restart_children_keep_their_parents() -> None:
    bench = Bench(seats=0)
    restarted(bench, redelivers=1)
    bench.done(1, task(1))
    bench.submit(1, 2, 3, parent=task(9))
    bench.say(Cancel(tasks=[task(9)]))
    assert set(bench.results()) == {task(3)}
    assert bench.sent(Interrupt) == [(1, Interrupt(task=task(2)))]


def test_after_a_restart_calls_find_their_engines() -> None:
    bench = Bench(seats=0)
    restarted(bench, 1, 2, 3)
    bench.submit(1)
    bench.submit(2, deps=[task(1)])
    bench.pin(3, [0], deps=[task(1)])
    assert bench.calls() == {}
    tasks = board_of(bench.scheduler).tasks
    assert [tasks[task(number)].group.client.id for number in (1, 2, 3)] == [ANNA] * 3
    assert tasks[task(3)].rank == 0


# ---- calls that no message can hold -----------------------------------------------------------------------

SMALL = CoreSettings(max_call_bytes=1000)
TOO_LARGE = (Outcome.ERROR, b"too large: 1204 of 1000")


def test_inputs_that_no_message_can_hold_fail_the_call_and_its_dependents() -> None:
    bench = Bench(seats=1, settings=SMALL)
    bench.say(
        PutObjects(objects=[Result(task(100), b"x" * 600), Result(task(101), b"x" * 600)]),
        Submit(
            function=F,
            calls=[
                Call(task(1), b"args", (task(100), task(101), task(100))),
                Call(task(2), b"args", (task(1),)),
                Call(task(3), b"args", (task(100),)),
            ],
        ),
    )
    assert bench.calls() == {1: [task(3)]}
    assert bench.results() == {task(1): TOO_LARGE, task(2): TOO_LARGE}


def test_inputs_that_turn_out_too_large_fail_the_call() -> None:
    bench = Bench(seats=1, settings=SMALL)
    bench.submit(1)
    bench.say(
        PutObjects(objects=[Result(task(100), b"x" * 600)]),
        Submit(function=F, calls=[Call(task(2), b"args", (task(1), task(100)))]),
    )
    bench.tell(1, Done(sequence=1, results=[Result(task(1), b"x" * 600)]))
    assert bench.results() == {task(1): (Outcome.OK, b"x" * 600), task(2): TOO_LARGE}


def test_pinned_calls_with_too_large_inputs_fail() -> None:
    bench = Bench(seats=2, settings=SMALL)
    bench.say(
        PutObjects(objects=[Result(task(100), b"x" * 1200)]),
        SubmitPinned(function=F, first=task(1), ranks=[0, 1], args=[b"args"], deps=(task(100),)),
    )
    assert bench.results() == {task(1): TOO_LARGE, task(2): TOO_LARGE}
    assert bench.runs() == []


def test_large_arguments_are_reckoned_by_the_largest() -> None:
    bench = Bench(seats=1, settings=CoreSettings(max_batch_bytes=1000))
    bench.say(Submit(function=F, calls=[Call(task(1), b"x" * 1500), Call(task(2), b"x")]))
    (group,) = board_of(bench.scheduler).groups.values()
    assert group.call_bytes == 1500


def test_what_arguments_contain_is_kept_but_not_waited_for() -> None:
    bench = Bench(seats=2)
    bench.say(PutObjects(objects=[Result(task(1), b"one")]))
    bench.submit(2)
    bench.submit(3, refs=[task(1), task(2), task(2)])
    assert bench.calls() == {2: [task(3)]}
    bench.say(Release(objects=[task(1)]))
    assert set(board_of(bench.scheduler).objects.entries) == {task(1), task(2)}
    bench.done(2, task(3))
    assert board_of(bench.scheduler).objects.entries == {}


def test_what_is_contained_and_an_input_counts_once() -> None:
    bench = Bench(seats=1)
    bench.say(PutObjects(objects=[Result(task(1), b"one")]))
    bench.submit(3, deps=[task(1)], refs=[task(1)])
    assert board_of(bench.scheduler).objects.entries[task(1)].uses == 1


def test_calls_of_an_actor_line_up() -> None:
    bench = Bench(seats=1)
    bench.say(CreateActor(actor=task(9), function=F, args=b"make"))
    bench.say(CallActor(actor=task(9), function=G, calls=[Call(task(1), b"")]))
    assert [waiting.id for waiting in board_of(bench.scheduler).actors[task(9)].calls.tasks()] == [task(1)]


def test_after_a_restart_streams_find_their_items() -> None:
    for over in (False, True):
        bench = Bench(seats=0)
        bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
        holds = [] if over else [task(0)]
        bench.handle(EngineAttached(engine=1, rank=0, pid=1, received=1, holds=holds, running=True, redelivers=1))
        end = [Result(task(0), b"2")] if over else []
        bench.answer(1, Result(task(1), b"item"), Result(task(2), b"item"), *end)
        failed = Result(task(STREAM_IDS), b"oops", Outcome.ERROR)
        bench.say(PutObjects(objects=[failed]))
        bench.submit(0, options=TaskOptions(num_returns=STREAMING))
        assert list(bench.results()) == [task(1), task(2)] + [task(0)] * over


def test_after_a_restart_a_stream_finds_its_items_before_its_end_is_told() -> None:
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
    bench.handle(EngineAttached(engine=1, rank=0, pid=1, received=1, redelivers=2))
    bench.answer(1, Result(task(1), b"item"))
    bench.submit(0, options=TaskOptions(num_returns=STREAMING))
    assert list(bench.results()) == [task(1)]
    bench.answer(1, Result(task(2), b"item"), Result(task(0), b"2"))
    assert list(bench.results()) == [task(2), task(0)]


def test_after_a_restart_calls_find_their_engines_though_their_inputs_have_failed() -> None:
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
    bench.handle(EngineAttached(engine=1, rank=0, pid=1, received=1, holds=[task(0)], running=True))
    bench.say(PutObjects(objects=[Result(task(5), b"oops", Outcome.ERROR)]))
    bench.submit(0, deps=[task(5)], options=TaskOptions(num_returns=STREAMING))
    assert bench.results() == {task(0): (Outcome.ERROR, b"oops")}
    assert board_of(bench.scheduler).streams == {}


# ---- calls that have been sent to an engine before ----------------------------------------------------------


def begun(number: int, engine: int, **options: int) -> Submit:
    return Submit(function=F, calls=[Call(task(number), b"x")], options=TaskOptions(**options), begun_on=engine)  # type: ignore[arg-type]


def test_a_call_that_has_begun_belongs_to_its_engine() -> None:
    bench = Bench(seats=2)
    bench.say(begun(1, 2))
    assert bench.calls() == {2: [task(1)]}
    bench.say(begun(1, 2))
    assert bench.calls() == {}, "it is known already"
    bench.exit(2)
    assert bench.calls() == {1: [task(1)]}
    assert board_of(bench.scheduler).tasks[task(1)].attempts == 1


def test_a_call_whose_engine_has_ended_is_tried_again() -> None:
    bench = Bench(seats=2)
    bench.exit(2)
    bench.say(begun(1, 2))
    assert bench.calls() == {1: [task(1)]}
    assert board_of(bench.scheduler).tasks[task(1)].attempts == 1


def test_a_call_whose_engine_has_ended_fails_without_retries() -> None:
    bench = Bench(seats=2)
    bench.exit(2, exit_code=-11)
    bench.say(begun(1, 2, max_retries=0))
    assert bench.results() == {task(1): (Outcome.ERROR, b"died 1 local -11  ")}
    bench.say(begun(3, 77, max_retries=0))
    why = b"refused: f had been sent to an engine that has ended: call it again"
    assert bench.results() == {task(3): (Outcome.ERROR, why)}


def test_a_call_of_an_actor_whose_engine_has_ended() -> None:
    bench = Bench(seats=1)
    engine = make(bench, max_restarts=-1)
    bench.exit(engine)
    calls = [Call(task(1), b"x")]
    bench.say(CallActor(actor=A, function=G, calls=calls, options=TaskOptions(max_retries=0), begun_on=engine))
    assert bench.results() == {task(1): (Outcome.ERROR, f"actor died: Counter: {BEGUN}".encode())}


def test_what_an_engine_has_still_to_tell_is_waited_for() -> None:
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)], patience_s=5.0))
    bench.say(begun(1, 1))
    assert bench.calls() == {}
    bench.handle(EngineAttached(engine=1, rank=0, pid=1, received=3, holds=[task(1)], running=True))
    assert bench.calls() == {}
    bench.done(1, task(1))
    assert set(bench.results()) == {task(1)}
