from fibernb.core.events import ClientAttached, EngineAttached, LiveEngine, NodeUp, RecoverFrom
from fibernb.core.messages import Blocked, Recall, Unblocked
from fibernb.core.scheduler import Scheduler
from fibernb.core.settings import CoreSettings
from fibernb.model import Resources, TaskOptions
from tests.core.bench import ANNA, Bench, G, PlainErrors, task
from tests.core.invariants import board_of, check
from tests.core.test_acting import call, make


def test_a_waiting_task_lends_its_seat_to_any_depth() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.submit(2, parent=task(1))
    assert not bench.runs()
    assert not bench.starts()
    bench.say(Blocked(task=task(1)))
    assert bench.starts() == [-2]
    bench.seat_all()
    assert list(bench.calls().values()) == [[task(2)]]
    bench.submit(3, parent=task(2))
    bench.say(Blocked(task=task(2)))
    assert bench.starts() == [-3]
    bench.seat_all()
    [third] = bench.calls()
    bench.done(third, task(3))
    bench.submit(4, parent=task(2))
    assert bench.calls() == {third: [task(4)]}, "an engine that is there is used again"


def test_who_goes_on_takes_its_cpu_back() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(Blocked(task=task(1)))
    bench.submit(2)
    bench.seat_all()
    [extra] = bench.calls()
    bench.say(Unblocked(task=task(1)))
    bench.submit(3)
    bench.done(extra, task(2))
    assert not bench.runs(), "there is no cpu for it"
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(3)]}


def test_what_is_queued_behind_a_waiting_task_is_taken_back() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-4)
    bench.submit(1, 2, 3)
    bench.say(Blocked(task=task(1)))
    assert len(bench.sent(Recall)) == 1
    bench.recalled(1, 2, 4)
    bench.seat_all()
    assert list(bench.calls().values()) == [[task(2), task(3)]]
    bench.submit(4)
    assert 1 not in bench.calls(), "nothing is sent behind it"


def test_idle_engines_beside_the_seats_are_let_go() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(Blocked(task=task(1)))
    bench.submit(2)
    bench.seat_all()
    [extra] = bench.calls()
    bench.done(extra, task(2))
    bench.acknowledge(9)
    bench.wait(6.0)
    assert bench.status().extra == 1
    bench.exit(extra, 0)
    assert bench.status().extra == 0
    bench.submit(3)
    assert bench.starts() == [-2], "ranks are used again"


def test_those_that_nobody_knows_are_ignored() -> None:
    bench = Bench(seats=1)
    board_of(bench.scheduler).unsettled = True
    bench.say(Blocked(task=task(1)), Unblocked(task=task(1)))
    board_of(bench.scheduler).unsettled = False
    bench.say(Blocked(task=task(1)), Unblocked(task=task(1)))
    bench.submit(1, deps=[task(1)])
    bench.submit(2)
    bench.submit(3)
    bench.say(Blocked(task=task(3)))
    assert not board_of(bench.scheduler).early_blocked
    assert not bench.starts()


def test_an_actor_that_waits_keeps_its_line() -> None:
    bench = Bench(seats=2)
    engine = make(bench, resources=Resources(milli_cpus=1000))
    call(bench, 1, 2)
    assert bench.calls() == {engine: [task(1), task(2)]}
    bench.say(Blocked(task=task(1)))
    assert not bench.sent(Recall)
    assert board_of(bench.scheduler).nodes["local"].free_milli() == 2000
    bench.done(engine, task(1))
    assert board_of(bench.scheduler).nodes["local"].free_milli() == 1000


def test_a_task_that_has_resources_lends_its_cpus_only() -> None:
    bench = Bench(seats=2)
    bench.submit(1, options=TaskOptions(resources=Resources(milli_cpus=2000, milli_gpus=2000)))
    bench.say(Blocked(task=task(1)))
    node = board_of(bench.scheduler).nodes["local"]
    assert node.free_milli() == 2000
    bench.submit(2, options=TaskOptions(resources=Resources(milli_gpus=1000)))
    assert not bench.runs()
    bench.submit(3, function=G)
    assert len(bench.runs()) == 1


def test_after_a_restart_of_the_hub_it_may_be_told_before_the_engine_has_come() -> None:
    scheduler = Scheduler(CoreSettings(), PlainErrors())
    scheduler.handle(RecoverFrom(node="n", engines=[LiveEngine(engine=7, rank=0, pid=1)]), 1.0)
    scheduler.handle(NodeUp(node="n"), 1.0)
    scheduler.handle(ClientAttached(client=ANNA, lease_s=60.0), 1.0)
    scheduler.client_message(ANNA, Blocked(task=task(1)), 1.0)
    scheduler.client_message(ANNA, Blocked(task=task(2)), 1.0)
    scheduler.drain(1.0)
    scheduler.handle(EngineAttached(engine=7, rank=0, pid=1, received=2, holds=[task(1), task(3)], running=True), 1.0)
    scheduler.drain(1.0)
    check(scheduler)
    board = board_of(scheduler)
    assert board.engines[7].blocked.keys() == {task(1)}
    assert board.early_blocked == {task(2)}
