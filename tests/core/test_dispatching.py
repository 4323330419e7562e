from fibernb.core.events import ClientAttached, EngineAttached, LiveEngine, NodeUp, RecoverFrom
from fibernb.core.messages import CreateGroup, DefineFunction, Recall, RemoveGroup, Submit
from fibernb.core.scheduler import Scheduler
from fibernb.core.settings import CoreSettings
from fibernb.model import Call, Resources, TaskOptions
from tests.core.bench import ANNA, Bench, F, PlainErrors, task
from tests.core.invariants import board_of
from tests.core.test_acting import call, make


def test_what_is_pinned_goes_first_then_what_needs_more_then_the_rest() -> None:
    bench = Bench(seats=3)
    bench.submit(1, 2, 3)
    bench.submit(4, 5)
    bench.submit(6, options=TaskOptions(resources=Resources(milli_gpus=1000)))
    bench.pin(7, [1])
    bench.done(2, task(2))
    assert bench.calls() == {2: [task(7)]}
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(6)]}
    bench.done(3, task(3))
    assert bench.calls() == {3: [task(4), task(5)]}


def test_calls_of_actors_and_groups_and_what_is_taken_back() -> None:
    bench = Bench(seats=2)
    make(bench)
    call(bench, 1)
    assert len(bench.calls()) == 1
    bench.say(CreateGroup(group=task(90), bundles=[Resources()]))
    assert board_of(bench.scheduler).placements[task(90)].placed()
    bench.say(RemoveGroup(group=task(90)))
    bench.learn(1e-3)
    bench.submit(11, 12, 13, 14, 15, 16)
    [first, second] = bench.calls()
    bench.done(second, *(each.id for each in board_of(bench.scheduler).engines[second].line))
    bench.wait(0.1)
    assert [engine for engine, _ in bench.sent(Recall)] == [first]


def test_special_tasks_are_looked_at_when_something_has_changed() -> None:
    bench = Bench(seats=1)
    gpu = TaskOptions(resources=Resources(milli_gpus=2000))
    bench.submit(1, options=gpu)
    bench.submit(2, options=gpu)
    bench.wait(0.01)
    assert not bench.runs()
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(2)]}


def test_nothing_is_decided_before_the_engines_have_told() -> None:
    scheduler = Scheduler(CoreSettings(), PlainErrors())
    scheduler.handle(RecoverFrom(node="n", engines=[LiveEngine(engine=7, rank=0, pid=1)]), 1.0)
    scheduler.handle(NodeUp(node="n"), 1.0)
    scheduler.handle(ClientAttached(client=ANNA, lease_s=60.0), 1.0)
    scheduler.client_message(ANNA, DefineFunction(digest=F, code=b"code"), 1.0)
    scheduler.client_message(ANNA, Submit(function=F, calls=[Call(task(1), b"")]), 1.0)
    assert not [c for c in scheduler.drain(1.0) if "Run(" in repr(c)]
    scheduler.handle(EngineAttached(engine=7, rank=0, pid=1), 1.0)
    assert [c for c in scheduler.drain(1.0) if "Run(" in repr(c)]
