"""Signals to the processes of actors, and how those of `fibernb.multiprocessing` end."""

from __future__ import annotations

import signal

from fibernb.core.commands import SignalEngine, StartEngine
from fibernb.core.messages import Cancel, Interrupt, KillActor, Release, SignalActor
from fibernb.model import Outcome, Resources
from tests.core.bench import ANNA, Bench, of, task
from tests.core.invariants import board_of
from tests.core.test_acting import A, call, create, make
from tests.core.test_reviving import attached, calls, come, create_message, drain, restarted

TERM = int(signal.SIGTERM)


def test_a_signal_goes_to_the_engine_of_a_living_actor() -> None:
    bench = Bench()
    engine = make(bench, is_process=True)
    call(bench, 1)
    bench.say(SignalActor(request=1, actor=A, signal=TERM), SignalActor(request=1, actor=A + 1, signal=TERM))
    assert of(bench.commands, SignalEngine) == [SignalEngine(engine=engine, signal=TERM)]
    bench.exit(engine, -TERM)
    outcome, value = bench.results()[task(1)]
    assert outcome is Outcome.ERROR
    assert value.endswith(b"[-15]")
    bench.say(SignalActor(request=1, actor=A, signal=TERM))
    assert not of(bench.commands, SignalEngine)


def test_one_that_has_not_begun_ends_as_if_the_signal_had_killed_it() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    create(bench, resources=Resources(milli_cpus=1000), is_process=True)
    call(bench, 2)
    bench.say(SignalActor(request=1, actor=A, signal=TERM))
    assert not of(bench.commands, SignalEngine)
    assert bench.results()[task(2)][1].endswith(b"[-15]")


def test_one_whose_engine_is_just_being_started() -> None:
    bench = Bench()
    create(bench, is_process=True)
    [start] = of(bench.commands, StartEngine)
    call(bench, 2)
    bench.say(SignalActor(request=1, actor=A, signal=TERM))
    assert bench.results()[task(2)][1].endswith(b"[-15]")
    assert bench.kills() == [start.engine]
    bench.exit(start.engine, -9)
    assert bench.status().extra == 0


def test_the_exit_code_of_one_that_was_killed() -> None:
    bench = Bench()
    engine = make(bench)
    call(bench, 1)
    bench.say(KillActor(actor=A))
    bench.exit(engine, -9)
    assert bench.results()[task(1)][1].endswith(b"[-9]")


def test_a_process_that_is_interrupted_tells_its_exit_code() -> None:
    bench = Bench()
    engine = make(bench, is_process=True)
    call(bench, 1)
    bench.say(Cancel(tasks=[task(1)]))
    bench.exit(engine, 1)
    outcome, value = bench.results()[task(1)]
    assert outcome is Outcome.ERROR
    assert value.endswith(b"[1]")


def test_a_process_that_nobody_holds_is_killed_after_a_moment() -> None:
    bench = Bench()
    engine = make(bench, is_process=True)
    bench.say(Release(objects=[A]))
    assert not bench.kills()
    bench.wait(1.0)
    assert bench.kills() == [engine]


def test_the_processes_of_a_client_that_ends_are_killed() -> None:
    bench = Bench()
    parent = make(bench, is_process=True)
    bench.attach(7, engine=parent)
    other = task(500_000, 7)
    create(bench, other, 7, is_process=True)
    bench.seat_all()
    engine = next(engine for engine, run in bench.runs() if run.actor is not None)
    bench.done(engine, other)
    call(bench, 1, actor=other, client=7)
    bench.exit(parent, -9)
    assert not bench.sent(Interrupt)
    bench.wait(1.0)
    assert bench.kills() == [engine]
    bench.exit(engine, -9)
    bench.wait(1.0)
    assert not bench.kills()


def test_after_a_restart_of_the_hub_a_signal_waits_for_its_actor() -> None:
    scheduler = restarted(7)
    come(scheduler)
    scheduler.client_message(ANNA, create_message(is_process=True), 2.0)
    scheduler.client_message(ANNA, calls(1), 2.0)
    scheduler.client_message(ANNA, SignalActor(request=1, actor=A, signal=TERM), 2.0)
    scheduler.client_message(ANNA, SignalActor(request=1, actor=task(99), signal=TERM), 2.0)
    drain(scheduler, 2.0)
    scheduler.handle(attached(7, -2, task(1), is_process=True), 2.0)
    assert of(scheduler.drain(2.0), SignalEngine) == [SignalEngine(engine=7, signal=TERM)]
    scheduler.drain(100.0)
    assert not board_of(scheduler).early_signals
