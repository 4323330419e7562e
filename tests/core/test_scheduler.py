import gc

import pytest

from fibernb.core.commands import FreeBlocks, KeepBlocks, ShutDown, TellClient
from fibernb.core.errorvalues import ErrorValues
from fibernb.core.events import (
    ClientAttached,
    ClientGone,
    EngineAttached,
    EngineUnreachable,
    LiveEngine,
    MemoryLow,
    NodeLost,
    RecoverFrom,
    StartFailed,
    StoreLost,
)
from fibernb.core.messages import (
    Acknowledge,
    ActorExits,
    Autoscale,
    Blocked,
    CallActor,
    Cancel,
    Checkpoint,
    Consume,
    CreateActor,
    CreateGroup,
    Detach,
    Display,
    Done,
    Exit,
    Fetch,
    FindActor,
    Forget,
    Goodbye,
    Hold,
    InterruptRanks,
    KillActor,
    Meet,
    Output,
    ProcessExits,
    Progress,
    PutObjects,
    Ran,
    Recalled,
    Release,
    Remember,
    RemoveGroup,
    RestartSeats,
    Said,
    Scale,
    SignalActor,
    Started,
    State,
    StateRequest,
    StatusRequest,
    Stop,
    Submit,
    Sync,
    Synced,
    Unblocked,
)
from fibernb.core.scheduler import Scheduler
from fibernb.core.settings import CoreSettings
from fibernb.model import Call, Outcome, Resources, Result, TaskOptions
from tests.core.bench import ANNA, Bench, F, of, task
from tests.core.invariants import board_of, sizes
from tests.core.test_acting import A, make
from tests.core.test_reviving import come, restarted


def test_late_words_of_engines_that_were_let_go_are_no_offence() -> None:
    bench = Bench(seats=1)
    bench.say(Scale(seats=2))
    bench.say(Scale(seats=1))
    assert bench.kills() == [2]
    bench.tell(2, Done(sequence=1, results=[]), Started(position=0))
    bench.exit(2)
    bench.tell(2, Recalled(position=0, until=0))
    assert bench.status().refused == 0


def test_who_is_not_attached_is_not_heard() -> None:
    bench = Bench(seats=1)
    for message in (
        Acknowledge(sequence=1),
        Autoscale(),
        Cancel(tasks=[]),
        Detach(),
        Goodbye(),
        InterruptRanks(ranks=[]),
        Release(objects=[]),
        RestartSeats(ranks=[]),
        Scale(seats=9),
        StatusRequest(request=1),
        Stop(),
    ):
        assert bench.say(message, client=99) == []
    bench.say(Scale(seats=2))
    for engine in (2, 99):
        bench.tell(engine, Done(sequence=1, results=[]), Started(position=0), Recalled(position=0, until=0))
    assert bench.status().refused == 11 + 6


def test_what_arrives_together_is_decided_together() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    for number in range(3):
        message = Submit(function=F, calls=[Call(task(number), b"")])
        bench.scheduler.client_message(ANNA, message, bench.now)
    bench.drain()
    assert bench.calls() == {1: [task(0), task(1), task(2)]}
    assert len(bench.runs()) == 1


def test_the_next_wakeup() -> None:
    scheduler = Scheduler(CoreSettings())
    assert scheduler.next_wakeup(5.0) is None
    scheduler.drain(5.0)
    assert scheduler.next_wakeup(5.0) == 65.0, "nobody has come yet"
    scheduler.handle(ClientAttached(client=ANNA, lease_s=60.0), 6.0)
    assert scheduler.next_wakeup(6.0) == 6.0, "there are commands"
    assert len(scheduler.drain(6.0)) == 2
    assert scheduler.next_wakeup(6.0) is None
    scheduler.handle(ClientGone(client=ANNA), 7.0)
    assert scheduler.next_wakeup(7.0) == 67.0


def test_errors_are_made_by_the_usual_factory_unless_another_is_given() -> None:
    scheduler = Scheduler(CoreSettings())
    scheduler.handle(ClientAttached(client=ANNA, lease_s=60.0), 0.0)
    scheduler.client_message(ANNA, Submit(function=b"?", calls=[Call(task(1), b"")]), 0.0)
    commands = [command for command in scheduler.drain(0.0) if isinstance(command, TellClient)]
    result = commands[-1].message.results[0]  # type: ignore[union-attr]
    text = "the code of the function has not reached the cluster: call it again"
    assert result == Result(task(1), ErrorValues().refused(text), Outcome.ERROR)


@pytest.mark.parametrize(
    "said",
    [
        Output(task=task(1), rank=0, sequence=0, stream="stdout", text="x"),
        Display(task=task(1), rank=0, sequence=0, kind="display", content=b"{}"),
        Progress(task=task(1), rank=0, sequence=0, bars=[]),
    ],
)
def test_all_that_tasks_say_is_passed_on(said: Said) -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.tell(1, said)
    assert bench.told(ANNA, type(said)) == [said]


def test_a_batch_run_leaves_nothing() -> None:
    """Many calls through small batches: afterwards there are as many records as before."""
    bench = Bench(seats=4)
    before = sizes(bench.scheduler)
    bench.submit(*range(2000))
    sequence = 0
    while True:
        calls = bench.calls()
        sequence += bool(bench.results())
        if not calls:
            break
        for engine, ids in calls.items():
            number = bench.sequences[engine] = bench.sequences.get(engine, 0) + 1
            done = Done(sequence=number, results=[Result(id_, b"v") for id_ in ids], run_s=1e-4 * len(ids))
            bench.scheduler.engine_message(engine, done, bench.now)
        bench.now += 0.01
        bench.drain()
    bench.acknowledge(sequence)
    bench.wait(1.0)
    assert sizes(bench.scheduler) == before
    assert board_of(bench.scheduler).counts.finished == 2000


def test_a_life_with_all_events() -> None:
    """Each kind of event, message and timer comes to the place where it is dealt with."""
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)], patience_s=5.0))
    bench.handle(EngineAttached(engine=1, rank=0, pid=1, redelivers=2))
    bench.done(1, task(500))
    bench.wait(5.0)
    bench.say(Remember(keys=("a",), function=F, args=[b"x"]), Scale(seats=2))
    bench.handle(StartFailed(engines=[bench.engine(1)], reason="no memory"))
    bench.wait(0.1)
    bench.wait(60.0)
    assert bench.kills() == [bench.engine(1)]
    bench.exit(bench.engine(1))
    bench.submit(1)
    bench.submit(2)
    bench.say(Cancel(tasks=[task(2)]))
    bench.tell(1, Started(position=0), Recalled(position=1, until=1))
    bench.say(InterruptRanks(ranks=[0]))
    bench.wait(3.0)
    assert 1 in bench.kills()
    bench.handle(EngineUnreachable(engine=1))
    bench.exit(1)
    bench.say(RestartSeats(ranks=[1]), Autoscale(minimum=1, maximum=2))
    bench.handle(NodeLost(node="local", reason="gone"))
    bench.wait(1.0)
    bench.say(Detach())
    bench.say(Goodbye())
    bench.attach(6)
    bench.handle(ClientGone(client=6))
    bench.wait(60.0)
    bench.attach(7)
    bench.say(Stop(), client=7)
    assert of(bench.commands, ShutDown) == [ShutDown(reason="it was stopped")]
    assert bench.wait(1e6) == []


def test_a_life_of_objects() -> None:
    bench = Bench(seats=1)
    bench.say(PutObjects(objects=[Result(task(1), b"", blocks=(7,))]), Hold(objects=[task(1)]))
    assert bench.commands[-1] == KeepBlocks(blocks=[7])
    bench.say(StateRequest(request=4, kind="objects"), Sync(request=5))
    assert [state.total for state in bench.told(ANNA, State)] == [1]
    assert bench.told(ANNA, Synced) == [Synced(request=5)]
    bench.handle(StoreLost(generation=0, reason="gone"))
    bench.say(Fetch(objects=[task(1)]), Consume(task=task(9), items=1))
    assert bench.results()[task(1)][0] is Outcome.ERROR
    bench.acknowledge(1)
    bench.handle(ClientGone(client=ANNA), ClientAttached(client=ANNA, lease_s=60.0))
    bench.wait(10.0)
    assert board_of(bench.scheduler).objects.entries == {}
    bench.say(PutObjects(objects=[Result(task(2), b"", blocks=(8,))]))
    bench.say(Release(objects=[task(2)]))
    assert bench.commands == [FreeBlocks(blocks=[8])]


def test_a_life_of_actors_and_placement_groups() -> None:
    bench = Bench(seats=1)
    bench.say(CreateActor(actor=task(1), function=F, args=b""), FindActor(request=1, name="nobody"))
    bench.seat_all()
    bench.done(2, task(1))
    bench.say(CallActor(actor=task(1), function=F, calls=[Call(task(2), b"")]), Blocked(task=task(2)))
    bench.say(Unblocked(task=task(2)))
    bench.tell(2, Checkpoint(state=b"state"))
    assert board_of(bench.scheduler).actors[task(1)].checkpoint == b"state"
    bench.say(Meet(request=1, actor=task(1)))
    bench.tell(2, Ran(tasks=[task(9)], name="f", run_s=0.1, began_s=1.0))
    bench.tell(2, ActorExits())
    bench.say(KillActor(actor=task(1)))
    bench.say(CreateGroup(group=task(3), bundles=[Resources()]), RemoveGroup(group=task(3)))
    bench.say(CreateGroup(group=task(4), bundles=[Resources()]))
    bench.say(Release(objects=[task(3), task(4)]))
    assert board_of(bench.scheduler).placements == {}
    bench.say(CreateGroup(group=task(5), bundles=[Resources(milli_cpus=0)]))
    bench.say(CreateActor(actor=task(6), function=F, args=b"", refs=(task(5),)))
    bench.seat_all()
    bench.say(Release(objects=[task(5)]))
    bench.say(Release(objects=[task(6)]))
    bench.submit(7, options=TaskOptions(environment="{}"))
    bench.seat_all()
    bench.done(bench.engine(-3), task(7))
    bench.wait(60.0)
    bench.say(CreateGroup(group=task(8), bundles=[Resources(milli_cpus=0)], detached=True))
    bench.say(Release(objects=[task(8)]))
    bench.wait(1.0)
    assert task(8) in board_of(bench.scheduler).placements
    bench.handle(MemoryLow(node="local", used_bytes=9, limit_bytes=8, engines=[]))


def test_a_signal_is_confirmed_and_a_process_that_exits_may() -> None:
    bench = Bench()
    engine = make(bench, is_process=True)
    bench.say(SignalActor(request=5, actor=A, signal=15))
    assert bench.told(ANNA, Synced) == [Synced(request=5)]
    bench.tell(engine, ProcessExits())
    assert bench.sent(Exit) == [(engine, Exit())]


def test_a_signal_that_came_early_waits() -> None:
    scheduler = restarted(7)
    come(scheduler)
    scheduler.client_message(ANNA, SignalActor(request=5, actor=A, signal=15), 2.0)
    scheduler.drain(2.0)
    scheduler.drain(2.0)
    assert len(board_of(scheduler).early_signals) == 1


def test_those_who_are_away_get_their_results_later() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.handle(ClientGone(client=ANNA))
    bench.done(1, task(1))
    assert bench.results() == {}
    bench.handle(ClientAttached(client=ANNA, lease_s=60.0))
    assert set(bench.results()) == {task(1)}


def test_an_engine_hears_in_time_what_it_may_forget() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.done(1, task(1))
    bench.acknowledge(1)
    bench.wait(0.5)
    assert len(bench.sent(Forget)) == 1


def test_an_empty_cluster_ends() -> None:
    scheduler = Scheduler(CoreSettings(lease_s=5.0))
    scheduler.drain(1.0)
    assert of(scheduler.drain(6.0), ShutDown) == [ShutDown(reason="no client came in time")]


def test_a_seat_that_has_drained_lets_its_engine_go() -> None:
    bench = Bench(seats=1)
    bench.say(Scale(seats=0))
    assert bench.sent(Exit) == [(1, Exit())]


def test_tasks_do_not_burden_the_garbage_collector() -> None:
    bench = Bench(seats=0)
    bench.submit(*range(1000))
    assert not any(map(gc.is_tracked, board_of(bench.scheduler).tasks.values()))
