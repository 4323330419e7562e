"""What becomes of an actor and its calls when its engine, or the hub, ends."""

from __future__ import annotations

from fibernb.core.commands import StartEngine, TellClient, TellEngine
from fibernb.core.events import (
    ClientAttached,
    EngineAttached,
    EngineExited,
    LiveEngine,
    NodeLost,
    NodeUp,
    RecoverFrom,
    StartFailed,
)
from fibernb.core.messages import (
    ActorRecord,
    CallActor,
    Cancel,
    Checkpoint,
    CreateActor,
    CreateGroup,
    DefineFunction,
    Deliver,
    Done,
    EndActor,
    Fetch,
    HoldActor,
    KillActor,
    Release,
    Run,
)
from fibernb.core.scheduler import Scheduler
from fibernb.core.settings import CoreSettings
from fibernb.model import ActorOptions, Call, Outcome, Resources, Result, TaskOptions
from tests.core.bench import ANNA, Bench, F, G, PlainErrors, of, task
from tests.core.invariants import board_of, check
from tests.core.test_acting import A, call, create, make


def test_calls_that_may_have_begun_fail_and_others_go_on() -> None:
    bench = Bench()
    engine = make(bench, max_restarts=1)
    call(bench, 1)
    call(bench, 2, max_retries=1)
    bench.tell(engine, Checkpoint(state=b"so far"))
    bench.exit(engine)
    outcome, value = bench.results()[task(1)]
    assert outcome is Outcome.ERROR
    assert b"is restarted, but this call may have begun" in value
    assert bench.starts() == [-2]
    bench.seat_all()
    [(second, run)] = bench.runs()
    assert run.actor is not None
    assert (run.actor.restarts, run.actor.checkpoint) == (1, b"so far")
    call(bench, 3)
    assert not bench.runs()
    bench.done(second, A)
    assert bench.calls() == {second: [task(2), task(3)]}
    bench.exit(second)
    assert b"all of its max_restarts=1 have been used" in bench.results()[task(3)][1]


def test_the_last_output_stands_at_the_end_of_the_reason() -> None:
    bench = Bench()
    engine = make(bench, max_restarts=1)
    call(bench, 1)
    bench.exit(engine, last_output="last words")
    assert bench.results()[task(1)][1].endswith(b"max_task_retries are used up\nits last output:\nlast words")
    bench.seat_all()
    [(engine, _)] = bench.runs()
    bench.done(engine, A)
    call(bench, 2)
    bench.exit(engine, last_output="last words")
    assert bench.results()[task(2)][1].endswith(b"have been used\nits last output:\nlast words [-9]")


def test_a_call_that_was_not_first_has_not_used_up_a_retry() -> None:
    bench = Bench()
    engine = make(bench, max_restarts=-1)
    call(bench, 1, 2, max_retries=1)
    for _ in range(2):
        bench.exit(engine)
        bench.seat_all()
        [(engine, _)] = bench.runs()
        bench.done(engine, A)
    assert bench.calls() == {engine: [task(2)]}


def test_one_that_dies_while_it_is_made_is_made_again() -> None:
    bench = Bench()
    create(bench, max_restarts=1)
    bench.seat_all()
    [(engine, _)] = bench.runs()
    bench.exit(engine)
    bench.seat_all()
    [(engine, _)] = bench.runs()
    bench.exit(engine)
    bench.say(Fetch(objects=[A]))
    outcome, value = bench.results()[A]
    assert outcome is Outcome.ERROR
    assert b"all of its max_restarts=1 have been used" in value


def test_the_calls_of_one_that_was_killed() -> None:
    bench = Bench()
    engine = make(bench, max_restarts=5)
    call(bench, 1, max_retries=5)
    bench.say(KillActor(actor=A))
    assert list(bench.results()) == [A]
    bench.exit(engine)
    assert b"it was killed" in bench.results()[task(1)][1]
    assert not bench.starts()


def test_one_that_dies_again_while_it_is_restarted() -> None:
    bench = Bench()
    engine = make(bench, max_restarts=2)
    for restarts in (1, 2):
        bench.exit(engine)
        bench.seat_all()
        [(engine, run)] = bench.runs()
        assert run.actor is not None
        assert run.actor.restarts == restarts
    bench.exit(engine)
    assert board_of(bench.scheduler).actors[A].dead


def test_an_engine_that_cannot_start_is_no_restart() -> None:
    bench = Bench()
    create(bench)
    [start] = of(bench.commands, StartEngine)
    bench.handle(StartFailed(engines=[start.engine], reason="no memory"))
    bench.wait(0.2)
    assert bench.starts() == [-2]
    bench.seat_all()
    assert bench.runs()


def test_a_cancelled_call_is_not_run_again() -> None:
    bench = Bench()
    engine = make(bench, max_restarts=1)
    call(bench, 1, max_retries=9)
    bench.say(Cancel(tasks=[task(1)]))
    bench.say(Cancel(tasks=[task(1)]))
    assert not bench.kills(), "its actor would lose its state"
    bench.say(Cancel(tasks=[task(1)], force=True))
    assert bench.kills() == [engine]
    bench.exit(engine)
    assert bench.results()[task(1)][0] is Outcome.CANCELLED


def test_the_making_is_not_cancelled() -> None:
    bench = Bench()
    create(bench)
    started = bench.commands
    bench.say(Cancel(tasks=[A]))
    bench.seat_all(started)
    assert bench.runs()


def test_on_another_node_if_its_own_has_gone() -> None:
    bench = Bench()
    engine = make(bench, max_restarts=1)
    bench.handle(NodeUp(node="other"))
    bench.handle(NodeLost(node="local", reason="it broke"))
    [start] = [command for command in of(bench.commands, StartEngine) if command.rank < 0]
    assert start.node == "other"
    assert start.engine != engine


# ---- after a restart of the hub --------------------------------------------------------------------------


def restarted(*engines: int) -> Scheduler:
    scheduler = Scheduler(CoreSettings(), PlainErrors())
    live = [LiveEngine(engine=engine, rank=-1 - number, pid=1) for number, engine in enumerate(engines, 1)]
    scheduler.handle(RecoverFrom(node="n", engines=live), 1.0)
    scheduler.handle(NodeUp(node="n"), 1.0)
    return scheduler


def create_message(**options: object) -> CreateActor:
    return CreateActor(actor=A, function=F, args=b"init", options=ActorOptions(class_name="C", **options))  # type: ignore[arg-type]


def attached(engine: int, rank: int, *holds: int, redelivers: int = 0, **options: object) -> EngineAttached:
    return EngineAttached(
        engine=engine,
        rank=rank,
        pid=1,
        received=5,
        holds=list(holds),
        redelivers=redelivers,
        actor=ActorRecord(create=create_message(**options), code=b"code", restarts=2, checkpoint=b"state"),
    )


def come(scheduler: Scheduler, now: float = 2.0) -> None:
    scheduler.handle(ClientAttached(client=ANNA, lease_s=60.0), now)
    scheduler.client_message(ANNA, DefineFunction(digest=F, code=b"code"), now)
    scheduler.client_message(ANNA, DefineFunction(digest=G, code=b"code"), now)


def calls(*numbers: int) -> CallActor:
    asked = [Call(task(number), b"") for number in numbers]
    return CallActor(actor=A, function=G, calls=asked, options=TaskOptions(max_retries=0))


def drain(scheduler: Scheduler, now: float) -> list[Run]:
    commands = scheduler.drain(now)
    check(scheduler)
    return [each.message for each in of(commands, TellEngine) if isinstance(each.message, Run)]


def test_an_actor_that_lives_is_found_again() -> None:
    scheduler = restarted(7)
    scheduler.handle(attached(7, -2, task(1)), 1.0)
    drain(scheduler, 1.0)
    come(scheduler)
    scheduler.client_message(ANNA, create_message(), 2.0)
    scheduler.client_message(ANNA, calls(1, 2), 2.0)
    [run] = drain(scheduler, 2.0)
    assert [each.id for each in run.calls] == [task(2)]
    actor = board_of(scheduler).actors[A]
    assert (actor.restarts, actor.checkpoint) == (2, b"state")


def test_its_next_engine_has_its_environment() -> None:
    scheduler = restarted(7)
    scheduler.handle(attached(7, -2, environment='{"env_vars":{}}', max_restarts=3), 1.0)
    come(scheduler)
    scheduler.client_message(ANNA, create_message(), 2.0)
    scheduler.handle(EngineExited(engine=7, exit_code=-9), 2.0)
    [start] = of(scheduler.drain(30.0), StartEngine)
    assert (start.rank, start.environment) == (-2, '{"env_vars":{}}')


def test_its_client_may_tell_of_it_first() -> None:
    scheduler = restarted(7)
    come(scheduler)
    scheduler.client_message(ANNA, create_message(), 2.0)
    scheduler.client_message(ANNA, calls(2), 2.0)
    assert not drain(scheduler, 2.0)
    scheduler.handle(attached(7, -2), 2.0)
    [run] = drain(scheduler, 2.0)
    assert [each.id for each in run.calls] == [task(2)]
    assert run.actor is None


def test_others_may_call_it_before_it_is_known() -> None:
    scheduler = restarted(7)
    come(scheduler)
    scheduler.client_message(ANNA, calls(2), 2.0)
    scheduler.handle(attached(7, -2, redelivers=1), 2.0)
    drain(scheduler, 2.0)
    done = Done(sequence=1, results=[Result(A, b"\x80\x05N.")])
    scheduler.engine_message(7, done, 2.0)
    [run] = drain(scheduler, 2.0)
    assert [each.id for each in run.calls] == [task(2)]


def test_one_that_is_being_made_goes_on() -> None:
    scheduler = restarted(7)
    scheduler.handle(attached(7, -2, A), 1.0)
    drain(scheduler, 1.0)
    come(scheduler)
    scheduler.client_message(ANNA, create_message(), 2.0)
    scheduler.client_message(ANNA, calls(2), 2.0)
    assert not drain(scheduler, 2.0)
    scheduler.engine_message(7, Done(sequence=1, results=[Result(A, b"")]), 2.0)
    assert len(drain(scheduler, 2.0)) == 1


def test_one_whose_process_has_ended_while_there_was_no_hub() -> None:
    scheduler = Scheduler(CoreSettings(), PlainErrors())
    scheduler.handle(RecoverFrom(node="n", engines=[], ended={7: 3}), 1.0)
    scheduler.handle(NodeUp(node="n"), 1.0)
    come(scheduler)
    scheduler.client_message(ANNA, HoldActor(actor=A, engine=7), 2.0)
    scheduler.client_message(ANNA, HoldActor(actor=A + 1, engine=8), 2.0)
    scheduler.client_message(ANNA, calls(1), 2.0)
    [deliver] = [told.message for told in of(scheduler.drain(2.0), TellClient) if isinstance(told.message, Deliver)]
    check(scheduler)
    [result] = deliver.results
    assert (result.id, result.outcome) == (task(1), Outcome.ERROR)
    assert result.value.endswith(b"ended with exit code 3 while there was no hub [3]")
    assert board_of(scheduler).next_engine > 7


def test_one_whose_node_has_ended_as_well() -> None:
    scheduler = Scheduler(CoreSettings(), PlainErrors())
    live = [LiveEngine(engine=8, rank=-3, pid=1)]
    scheduler.handle(RecoverFrom(node="n", engines=live), 1.0)
    come(scheduler)
    for actor, engine in ((A, 7), (A, 7), (A + 1, 8)):
        scheduler.client_message(ANNA, HoldActor(actor=actor, engine=engine), 2.0)
    scheduler.client_message(ANNA, Fetch(objects=[A, A + 1]), 2.0)
    scheduler.client_message(ANNA, calls(1), 2.0)
    told = [told.message for told in of(scheduler.drain(2.0), TellClient)]
    results = [result for message in told if isinstance(message, Deliver) for result in message.results]
    check(scheduler)
    assert {result.id for result in results} == {A, task(1)}, "one that lives may still be heard of"
    assert all(b"its process ended while there was no hub" in result.value for result in results)


def test_what_nobody_has_asked_for_ends() -> None:
    scheduler = restarted(7, 8)
    come(scheduler, 1.0)
    scheduler.client_message(ANNA, CreateGroup(group=task(700), bundles=[Resources(milli_cpus=0)]), 1.0)
    scheduler.client_message(ANNA, Release(objects=[task(700)]), 1.0)
    scheduler.client_message(ANNA, CreateGroup(group=task(701), bundles=[Resources(milli_cpus=0)]), 1.0)
    scheduler.client_message(ANNA, CallActor(actor=task(99), function=G, calls=[Call(task(3), b"")]), 1.0)
    scheduler.handle(attached(7, -2, placement=5), 1.0)
    scheduler.handle(EngineAttached(engine=8, rank=-3, pid=1), 1.0)
    drain(scheduler, 1.0)
    commands = scheduler.drain(70.0)
    check(scheduler)
    messages = [getattr(command, "message", None) for command in commands]
    assert EndActor() in messages
    [deliver] = [message for message in messages if isinstance(message, Deliver)]
    assert b"not there any more" in deliver.results[0].value
    assert list(board_of(scheduler).placements) == [task(701)]
    assert -3 in board_of(scheduler).draining or board_of(scheduler).engines[8].doomed
