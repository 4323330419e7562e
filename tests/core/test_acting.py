"""Actors are made, called, found and ended."""

from __future__ import annotations

from collections.abc import Sequence

from fibernb.core.acting import give_back_lease, refuse_early_calls
from fibernb.core.commands import Command, StartEngine
from fibernb.core.events import StartFailed
from fibernb.core.holding import missing
from fibernb.core.messages import (
    ActorExits,
    ActorFound,
    CallActor,
    Cancel,
    Checkpoint,
    CreateActor,
    CreateGroup,
    EndActor,
    Fetch,
    FindActor,
    Goodbye,
    Hold,
    KillActor,
    PutObjects,
    Release,
    RestartSeats,
    Run,
)
from fibernb.core.settings import CoreSettings
from fibernb.model import ActorOptions, Call, ClientId, EngineId, Outcome, Resources, Result, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, F, G, of, task
from tests.core.invariants import board_of

A = task(500_000)


def create(
    bench: Bench, actor: int = A, client: int = ANNA, request: int = 0, get: bool = False, **options: object
) -> None:
    bench.say(
        CreateActor(
            actor=actor,
            function=F,
            args=b"init",
            options=ActorOptions(class_name="Counter", **options),  # type: ignore[arg-type]
            about=b"about",
            request=request,
            get_if_exists=get,
        ),
        client=client,
    )


def make(bench: Bench, actor: int = A, client: int = ANNA, **options: object) -> EngineId:
    """An actor that lives; returns its engine."""
    create(bench, actor, client, **options)  # type: ignore[arg-type]
    bench.seat_all()
    engine = next(engine for engine, run in bench.runs() if run.actor is not None)
    bench.done(engine, actor)
    return engine


def call(
    bench: Bench,
    *numbers: int,
    actor: int = A,
    client: ClientId = ANNA,
    function: bytes = G,
    deps: Sequence[int] = (),
    max_retries: int = 0,
) -> list[Command]:
    calls = [Call(task(number, client), b"args", tuple(deps)) for number in numbers]
    options = TaskOptions(max_retries=max_retries)
    return bench.say(CallActor(actor=actor, function=function, calls=calls, options=options), client=client)


def test_an_actor_gets_an_engine_of_its_own_beside_the_seats() -> None:
    bench = Bench(seats=2)
    create(bench)
    assert bench.starts() == [-2]
    bench.seat_all()
    [(engine, run)] = bench.runs()
    assert run.function == F
    assert run.code == b"code of f"
    assert run.calls == [Call(A, b"init")]
    assert run.actor is not None
    assert run.actor.create.about == b"about"
    status = bench.status()
    assert (status.seats, status.ready, status.actors, status.extra) == (2, 2, 1, 1)
    bench.done(engine, A)
    bench.say(Fetch(objects=[A]))
    assert bench.results() == {A: (Outcome.OK, b"value")}


def test_calls_wait_until_the_actor_lives_and_go_in_one_message() -> None:
    bench = Bench()
    create(bench)
    started = bench.commands
    call(bench, 1, 2, 3)
    bench.seat_all(started)
    [(engine, _)] = bench.runs()
    bench.done(engine, A)
    [(_, run)] = bench.runs()
    assert [each.id for each in run.calls] == [task(1), task(2), task(3)]
    bench.done(engine, task(1), task(2), task(3))
    assert set(bench.results()) == {task(1), task(2), task(3)}


def test_calls_of_one_caller_keep_their_order_and_do_not_hold_up_others() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    engine = make(bench)
    bench.submit(7)
    call(bench, 1, deps=[task(7)])
    call(bench, 2)
    assert not bench.runs()
    call(bench, 1, client=BERT)
    assert bench.calls() == {engine: [task(1, BERT)]}
    bench.done(bench.engine(0), task(7))
    assert bench.calls() == {engine: [task(1), task(2)]}


def test_a_handle_that_is_dropped_ends_the_actor_when_its_calls_are_done() -> None:
    bench = Bench()
    engine = make(bench)
    call(bench, 1)
    bench.say(Release(objects=[A]))
    assert not bench.sent(EndActor)
    bench.done(engine, task(1))
    bench.acknowledge(9)
    assert bench.sent(EndActor) == [(engine, EndActor())]
    bench.exit(engine, 0)
    assert not board_of(bench.scheduler).actors
    assert not board_of(bench.scheduler).objects.entries


def test_one_that_was_not_made_yet_just_goes() -> None:
    bench = Bench()
    create(bench)
    bench.say(Release(objects=[A]))
    engine = bench.kills()[0]
    bench.exit(engine)
    assert not board_of(bench.scheduler).actors


def test_a_detached_actor_lives_on_and_is_found_by_its_name() -> None:
    bench = Bench()
    engine = make(bench, name="hal", detached=True)
    bench.say(Release(objects=[A]))
    assert not bench.sent(EndActor)
    bench.attach(BERT)
    bench.say(FindActor(request=3, name="hal"), client=BERT)
    assert bench.told(BERT, ActorFound) == [ActorFound(request=3, actor=A, about=b"about")]
    bench.say(KillActor(actor=A))
    assert bench.kills() == [engine]
    bench.say(FindActor(request=4, name="hal"), client=BERT)
    assert "no actor named 'hal'" in bench.told(BERT, ActorFound)[0].problem
    bench.exit(engine)
    call(bench, 1, client=BERT)
    assert b"it was killed" in bench.results(BERT)[task(1, BERT)][1]
    bench.say(Release(objects=[A]), client=BERT)
    assert not board_of(bench.scheduler).actors


def test_a_name_is_taken_while_its_actor_lives() -> None:
    bench = Bench()
    make(bench, name="hal")
    create(bench, task(600_000), name="hal", request=1)
    assert "kill(get_actor('hal'))" in bench.told(ANNA, ActorFound)[0].problem
    create(bench, task(600_001), name="hal", request=2, get=True)
    assert bench.told(ANNA, ActorFound) == [ActorFound(request=2, actor=A, about=b"about")]
    create(bench, task(600_002), name="hal")
    bench.say(Fetch(objects=[task(600_002)]))
    assert bench.results()[task(600_002)][0] is Outcome.ERROR
    create(bench, task(600_003), name="hal", namespace="other", request=3)
    assert bench.told(ANNA, ActorFound) == [ActorFound(request=3, actor=task(600_003), about=b"about")]


def test_a_constructor_that_fails_is_what_all_calls_come_to() -> None:
    bench = Bench()
    create(bench)
    started = bench.commands
    call(bench, 1)
    bench.seat_all(started)
    [(engine, _)] = bench.runs()
    bench.done(engine, A, outcome=Outcome.ERROR, value=b"oops")
    assert bench.results() == {A: (Outcome.ERROR, b"oops"), task(1): (Outcome.ERROR, b"oops")}
    assert bench.kills() == [engine]
    bench.exit(engine)
    call(bench, 2)
    assert bench.results() == {task(2): (Outcome.ERROR, b"oops")}
    bench.say(Fetch(objects=[A]))
    assert bench.results() == {A: (Outcome.ERROR, b"oops")}


def test_an_actor_dies_with_its_engine() -> None:
    bench = Bench()
    engine = make(bench)
    call(bench, 1)
    bench.exit(engine)
    outcome, value = bench.results()[task(1)]
    assert outcome is Outcome.ERROR
    assert b"signal 9 (SIGKILL)" in value
    assert b"max_restarts is 0" in value


def test_exits() -> None:
    bench = Bench()
    engine = make(bench)
    call(bench, 1)
    call(bench, 2)
    bench.done(engine, task(1))
    bench.tell(engine, ActorExits())
    assert not bench.sent(EndActor), "its results may not have arrived"
    bench.acknowledge(9)
    assert bench.sent(EndActor)
    bench.exit(engine, 0)
    assert b"it called exit_actor" in bench.results()[task(2)][1]


def test_kill_without_end_restarts() -> None:
    bench = Bench()
    engine = make(bench, max_restarts=-1, resources=Resources(milli_cpus=1000))
    bench.say(KillActor(actor=A, no_restart=False))
    assert bench.kills() == [engine]
    bench.exit(engine)
    assert bench.starts() == [-2]
    assert board_of(bench.scheduler).nodes["local"].free_milli() == 1000


def test_cpu_of_an_actor_keeps_a_seat_empty() -> None:
    bench = Bench(seats=2)
    make(bench, resources=Resources(milli_cpus=1000))
    bench.submit(1, 2, function=G)
    assert len(bench.runs()) == 1
    create(bench, task(600_000), resources=Resources(milli_cpus=3000))
    bench.say(Fetch(objects=[task(600_000)]))
    assert b"unschedulable" in bench.results()[task(600_000)][1]


def test_run_messages_of_many_callers() -> None:
    bench = Bench()
    engine = make(bench)
    call(bench, *range(1, 40))
    assert len(bench.sent(Run)[0][1].calls) == 39
    bench.done(engine, *(task(n) for n in range(1, 40)), run_s=1.0)
    call(bench, *range(40, 80))
    assert len(bench.sent(Run)[0][1].calls) == 2


def test_asking_for_the_same_actor_again_makes_no_second_one() -> None:
    bench = Bench()
    make(bench)
    create(bench, request=4)
    assert not bench.starts()
    assert bench.told(ANNA, ActorFound) == [ActorFound(request=4, actor=A, about=b"about")]


def test_a_class_whose_code_is_not_there() -> None:
    bench = Bench()
    bench.say(CreateActor(actor=A, function=b"?", args=b""), Fetch(objects=[A]))
    assert b"has not reached the cluster" in bench.results()[A][1]
    call(bench, 1)
    assert b"the code of the function has not reached the cluster" in bench.results()[task(1)][1]
    make(bench, task(600_000))
    call(bench, 2, actor=task(600_000), function=b"?")
    assert b"has not reached the cluster" in bench.results()[task(2)][1]


def test_an_actor_keeps_what_its_constructor_was_given() -> None:
    bench = Bench()
    bench.say(PutObjects(objects=[Result(task(1), b"x"), Result(task(2), b"y")]))
    bench.say(CreateActor(actor=A, function=F, args=b"", deps=(task(1),), refs=(task(2),)))
    started = bench.commands
    bench.say(Release(objects=[task(1), task(2)]))
    bench.seat_all(started)
    [(engine, run)] = bench.runs()
    assert run.inputs == [Result(task(1), b"x")]
    bench.done(engine, A)
    entries = board_of(bench.scheduler).objects.entries
    assert task(1) in entries
    assert task(2) in entries
    bench.say(KillActor(actor=A))
    assert task(1) not in entries
    assert task(2) not in entries


def test_what_it_is_made_again_from_is_what_it_told_last() -> None:
    bench = Bench()
    engine = make(bench)
    bench.tell(engine, Checkpoint(state=b"one"), Checkpoint(state=b"two"))
    actor = board_of(bench.scheduler).actors[A]
    assert actor.record().checkpoint == b"two"
    bench.say(KillActor(actor=A))
    bench.exit(engine)
    give_back_lease(board_of(bench.scheduler), actor)
    assert actor.lease is None


def test_placement_groups_are_watched_like_actors() -> None:
    bench = Bench()
    bench.say(CreateGroup(group=A, bundles=[Resources()]), Release(objects=[A]))
    assert not board_of(bench.scheduler).placements


def test_a_process_that_nobody_holds_has_a_moment_to_end_by_itself() -> None:
    bench = Bench()
    engine = make(bench, is_process=True)
    bench.say(Release(objects=[A]))
    assert not bench.kills()
    bench.exit(engine, 0)
    assert A not in board_of(bench.scheduler).actors
    bench.wait(1.0)
    assert not bench.kills()


def test_killing_one_that_has_no_engine_yet() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    create(bench, resources=Resources(milli_cpus=1000))
    call(bench, 2, 3)
    bench.say(KillActor(actor=A), KillActor(actor=A), KillActor(actor=A + 1))
    assert not bench.kills()
    assert b"it was killed" in bench.results()[task(2)][1]
    create(bench, task(600_000))
    [start] = of(bench.commands, StartEngine)
    bench.handle(StartFailed(engines=[start.engine], reason="no memory"))
    bench.say(KillActor(actor=task(600_000)))
    assert bench.status().extra == 0


def test_calls_that_depend_on_each_other_fail_together() -> None:
    bench = Bench(seats=1)
    bench.submit(9)
    make(bench)
    call(bench, 1, deps=[task(9)])
    call(bench, 2, deps=[task(1)])
    bench.say(KillActor(actor=A))
    assert set(bench.results()) == {A, task(1), task(2)}
    call(bench, 1)
    assert not bench.results(), "that was answered"


def test_a_call_that_held_up_others_is_cancelled() -> None:
    bench = Bench(seats=1)
    bench.submit(9)
    engine = make(bench)
    call(bench, 1, deps=[task(9)])
    call(bench, 2)
    bench.say(Cancel(tasks=[task(1)]))
    assert bench.calls() == {engine: [task(2)]}


def test_nothing_is_sent_to_an_engine_that_is_going() -> None:
    bench = Bench()
    engine = make(bench, max_restarts=1)
    bench.say(RestartSeats(ranks=[-2]))
    assert bench.kills() == [engine]
    call(bench, 1)
    assert not bench.runs()
    bench.tell(engine, ActorExits(reason="it left"))
    assert b"it left" in bench.results()[task(1)][1]
    bench.tell(engine, ActorExits(reason="it left"))
    bench.exit(engine)
    bench.tell(board_of(bench.scheduler).seats[0].engine.id, Checkpoint(state=b""), ActorExits())  # type: ignore[union-attr]
    assert bench.status().ready == 2


def test_who_runs_several_calls_at_a_time_gets_more_of_them() -> None:
    bench = Bench(settings=CoreSettings(max_line_calls=2))
    engine = make(bench, max_concurrency=2, groups={"io": 3})
    call(bench, *range(1, 20))
    assert len(bench.calls()[engine]) == 7


def test_a_new_actor_is_sent_few_calls_until_it_is_known_how_long_they_take() -> None:
    bench = Bench()
    engine = make(bench)
    board_of(bench.scheduler).actors[A].run_s = None
    call(bench, *range(1, 40))
    assert len(bench.calls()[engine]) == 16
    bench.done(engine, *(task(n) for n in range(1, 17)), run_s=1e-6)
    assert len(bench.calls()[engine]) == 23


def test_inputs_count_for_the_size_of_a_message() -> None:
    bench = Bench(settings=CoreSettings(max_batch_bytes=1000))
    bench.say(PutObjects(objects=[Result(task(50), b"x" * 900)]))
    engine = make(bench)
    call(bench, 1, 2, deps=[task(50)])
    assert [len(run.calls) for _, run in bench.runs()] == [1, 1]
    bench.done(engine, task(1), task(2))


def test_a_restart_leaves_its_object_as_it_is() -> None:
    bench = Bench()
    engine = make(bench, max_restarts=1)
    bench.exit(engine)
    bench.seat_all()
    [(engine, _)] = bench.runs()
    bench.done(engine, A)
    bench.say(Fetch(objects=[A]))
    assert bench.results()[A][0] is Outcome.OK


def test_who_makes_an_actor_and_goes_takes_it_along() -> None:
    bench = Bench()
    bench.attach(BERT)
    make(bench)
    bench.say(Goodbye())
    board = board_of(bench.scheduler)
    assert board.actors[A].dead
    bench.wait(61.0)


def test_a_handle_that_comes_back_in_time_keeps_it() -> None:
    bench = Bench()
    make(bench)
    bench.scheduler.client_message(ANNA, Release(objects=[A]), bench.now)
    bench.say(Hold(objects=[A]))
    board = board_of(bench.scheduler)
    assert not board.actors[A].dead
    assert not board.actors[A].unheld
    bench.say(Release(objects=[A]))
    assert board.actors[A].dead


def early(bench: Bench, *, stays: bool) -> Bench:
    """Calls of an actor that may come back, and does not. ``stays``: so does the caller."""
    board = board_of(bench.scheduler)
    bench.attach(BERT)
    board.unsettled = True
    call(bench, 1, client=BERT)
    if not stays:
        bench.say(Goodbye(), client=BERT)
    board.unsettled = False
    refuse_early_calls(board)
    bench.drain()
    return bench


def test_calls_of_an_actor_that_does_not_come_back() -> None:
    assert b"not there any more" in early(Bench(), stays=True).results(BERT)[task(1, BERT)][1]
    assert not early(Bench(), stays=False).results(BERT)


def test_callers_that_have_gone_when_the_actor_comes_back() -> None:
    bench = Bench()
    board = board_of(bench.scheduler)
    bench.attach(BERT)
    board.unsettled = True
    call(bench, 1, client=BERT)
    call(bench, 2)
    bench.say(Goodbye(), client=BERT)
    create(bench)
    assert board.actors[A].calls.count == 1


def test_all_who_hold_an_actor_hear_of_its_end() -> None:
    bench = Bench()
    bench.attach(BERT)
    engine = make(bench)
    bench.say(Hold(objects=[A]), client=BERT)
    bench.exit(engine)
    assert bench.results() == bench.results(BERT)
    assert b"max_restarts is 0" in bench.results(BERT)[A][1]


def test_a_constructor_that_fails_at_a_restart_says_why() -> None:
    bench = Bench()
    bench.exit(make(bench, max_restarts=1))
    bench.seat_all()
    [(engine, _)] = bench.runs()
    bench.done(engine, A, outcome=Outcome.ERROR, value=b"oops")
    call(bench, 1)
    assert bench.results() == {task(1): (Outcome.ERROR, b"oops")}


def test_one_that_ended_before_a_restart_of_the_hub_is_not_made_again() -> None:
    bench = Bench()
    bench.attach(BERT)
    bench.say(PutObjects(objects=[Result(A, b"it died", Outcome.ERROR)]))
    create(bench, client=BERT)
    create(bench, client=BERT, request=3)
    assert bench.told(BERT, ActorFound) == [ActorFound(request=3, actor=A)]
    calls = [Call(task(1, BERT), b"")]
    bench.say(CallActor(actor=A, function=G, calls=calls), client=BERT)
    assert bench.results(BERT) == {task(1, BERT): (Outcome.ERROR, b"it died")}
    assert not board_of(bench.scheduler).actors


def test_a_call_of_what_is_known_to_be_missing() -> None:
    bench = Bench()
    bench.say(PutObjects(objects=[missing(board_of(bench.scheduler), A)]))
    call(bench, 1)
    assert b"it is not there any more" in bench.results()[task(1)][1]
