from fibernb.core.auxiliary import let_idle_go
from fibernb.core.commands import StartEngine
from fibernb.core.events import EngineAttached, LiveEngine, NodeLost, NodeUp, RecoverFrom, StartFailed
from fibernb.core.messages import ActorRecord, Cancel, CreateActor, Remember
from fibernb.core.scheduler import Scheduler
from fibernb.core.settings import CoreSettings
from fibernb.model import ActorOptions, Outcome, Resources, TaskOptions
from tests.core.bench import Bench, F, PlainErrors, of, task
from tests.core.invariants import board_of, check

NONE = TaskOptions(resources=Resources(milli_cpus=0))


def started(bench: Bench) -> list[int]:
    return [command.engine for command in of(bench.commands, StartEngine)]


def test_one_that_cannot_start_is_tried_again_later() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=NONE)
    [engine] = started(bench)
    bench.handle(StartFailed(engines=[engine], reason="no memory"))
    assert not bench.starts()
    assert "no memory" in bench.status().problem
    bench.wait(0.2)
    assert bench.starts() == [-2]
    bench.seat_all()
    assert list(bench.calls().values()) == [[task(1)]]


def test_but_not_when_nothing_needs_it_any_more() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=NONE)
    [engine] = started(bench)
    bench.handle(StartFailed(engines=[engine], reason="no memory"))
    bench.say(Cancel(tasks=[task(1)]))
    bench.wait(0.2)
    assert not bench.starts()
    assert list(board_of(bench.scheduler).seats) == [0]


def test_one_that_dies_at_work_is_replaced_when_it_is_asked_for() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=NONE)
    bench.seat_all()
    [engine] = bench.calls()
    bench.exit(engine)
    assert bench.starts() == [-2]
    bench.seat_all()
    [engine] = bench.calls()
    bench.done(engine, task(1))
    assert bench.results()[task(1)] == (Outcome.OK, b"value")


def test_one_that_dies_again_and_again_does_not_multiply() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=NONE)
    for _ in range(5):
        for engine in started(bench):
            bench.handle(StartFailed(engines=[engine], reason="no memory"))
        bench.wait(100.0)
    assert len(started(bench)) == 1


def test_those_that_restore_the_namespace_do_not_multiply() -> None:
    bench = Bench(seats=2)
    bench.say(Remember(keys=("a",), function=F, args=[b"state"]))
    bench.submit(*range(1, 9), options=TaskOptions(environment="packages that take long to install"))
    assert bench.starts() == [-2, -3]
    first, second = started(bench)
    bench.seat_all()
    restoring = [run.calls[0].id for _, run in bench.runs()]
    for number in range(20, 25):
        bench.submit(number, options=TaskOptions(environment="packages that take long to install"))
        assert not bench.starts()
        bench.wait(1.0)
        assert not bench.starts()
    bench.done(first, restoring[0])
    assert [len(tasks) for tasks in bench.calls().values()] == [1]
    bench.exit(second)
    assert not bench.starts()  # it counts as one that could not start: the next one comes later
    bench.wait(0.2)
    assert bench.starts() == [-3]


def test_each_is_let_go_when_its_own_time_is_over() -> None:
    bench = Bench(seats=1)
    bench.submit(1, 2, options=NONE)
    bench.seat_all()
    first, second = bench.calls()
    bench.done(first, task(1))
    bench.acknowledge(9)
    bench.wait(3.0)
    bench.done(second, task(2))
    bench.acknowledge(9)
    bench.wait(2.5)
    bench.exit(first, 0)
    assert bench.status().extra == 1
    bench.wait(3.0)
    bench.exit(second, 0)
    assert bench.status().extra == 0


def test_when_their_node_goes_actors_are_placed_elsewhere() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=NONE)
    bench.say(CreateActor(actor=task(90), function=F, args=b"", options=ActorOptions(max_restarts=1)))
    bench.seat_all()
    bench.handle(NodeLost(node="local", reason="it broke"))
    board = board_of(bench.scheduler)
    assert [rank for rank in board.seats if rank < 0] == []
    assert board.actors[task(90)].rank == 0


def test_seats_from_a_hub_before_this_one() -> None:
    scheduler = Scheduler(CoreSettings(), PlainErrors())
    live = [LiveEngine(engine=7, rank=-5, pid=1), LiveEngine(engine=8, rank=-3, pid=1)]
    scheduler.handle(RecoverFrom(node="n", engines=live), 1.0)
    scheduler.handle(NodeUp(node="n"), 1.0)
    record = ActorRecord(create=CreateActor(actor=task(90), function=F, args=b""), code=b"code")
    scheduler.handle(EngineAttached(engine=7, rank=-5, pid=1, actor=record), 1.0)
    scheduler.handle(EngineAttached(engine=8, rank=-3, pid=1), 1.0)
    scheduler.drain(1.0)
    check(scheduler)
    board = board_of(scheduler)
    assert board.seats[-5].actor == task(90)
    assert (board.scaling.seats, board.next_extra) == (0, -6)
    let_idle_go(board, 10.0)
    assert list(board.draining) == [-3]


def test_a_seat_whose_node_has_gone_is_removed() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=NONE)
    [engine] = started(bench)
    bench.handle(StartFailed(engines=[engine], reason="no memory"))
    bench.handle(NodeUp(node="other"))
    bench.handle(NodeLost(node="local", reason="it broke"))
    assert {seat.node for rank, seat in board_of(bench.scheduler).seats.items() if rank < 0} == {"other"}
