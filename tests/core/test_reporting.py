from fibernb.core.events import ClientGone, LiveEngine, NodeUp, RecoverFrom
from fibernb.core.messages import Scale, SeatsChanged, SeatStatus, Started
from fibernb.core.scheduler import Scheduler
from fibernb.core.settings import CoreSettings
from fibernb.model import Resources, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, PlainErrors, task
from tests.core.invariants import board_of


def test_changes_are_told_at_once_but_not_too_often() -> None:
    bench = Bench(seats=0)
    bench.wait(1.0)
    bench.say(Scale(seats=3))
    assert [message.starting for message in bench.told(ANNA, SeatsChanged)] == [3]
    bench.say(Scale(seats=4))
    bench.say(Scale(seats=5))
    assert bench.told(ANNA, SeatsChanged) == []
    bench.wait(0.05)
    assert [message.seats for message in bench.told(ANNA, SeatsChanged)] == [5]
    bench.wait(0.05)
    assert bench.told(ANNA, SeatsChanged) == []


def test_who_is_away_or_lives_in_an_engine_is_not_told() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.attach(70, engine=1)
    bench.handle(ClientGone(client=BERT))
    bench.say(Scale(seats=2))
    bench.wait(1.0)
    assert [len(bench.told(client, SeatsChanged)) for client in (ANNA, BERT, 70)] == [1, 0, 0]


def test_status_counts() -> None:
    bench = Bench(seats=3, settings=CoreSettings(node="here", pid=77))
    bench.attach(70, engine=1)
    bench.submit(1, 2)
    bench.submit(3, deps=[task(1)])
    bench.pin(4, [0])
    bench.done(2, task(2))
    bench.now += 10.0
    status = bench.status()
    assert (status.seats, status.ready, status.busy, status.starting) == (3, 3, 1, 0)
    assert (status.waiting, status.queued, status.running) == (1, 1, 1)
    assert (status.finished, status.failed, status.refused, status.clients) == (1, 0, 0, 1)
    assert (status.minimum, status.maximum, status.uptime_s) == (None, None, 10.0)
    assert (status.node, status.pid, status.problem) == ("here", 77, "")
    assert status.pending == [
        "1 task waits for inputs",
        "1 task waits for the ranks that were chosen",
    ]
    assert status.engines[0] == SeatStatus(
        rank=0, engine=1, state="busy", pid=1001, task=task(1), function="f", queued=1, busy_s=10.0
    )
    assert status.engines[1] == SeatStatus(rank=1, engine=2, state="idle", pid=1002)


def test_status_of_seats_without_engines_and_of_lines() -> None:
    bench = Bench(seats=2)
    bench.learn(1e-3)
    bench.submit(1, 2, 3, options=TaskOptions(name="shown name"))
    bench.tell(1, Started(position=2))
    bench.exit(2)
    bench.exit(board_of(bench.scheduler).engine_of(1).id)
    status = bench.status()
    assert status.engines[0].function == "shown name"
    assert status.engines[0].queued == 1
    assert status.engines[1].state == "wanted"
    assert status.engines[1].deaths == 2


def test_pending_says_why() -> None:
    bench = Bench(seats=1)
    bench.submit(1, 2)
    bench.submit(3, 4, options=TaskOptions(resources=Resources(milli_gpus=2000)))
    assert bench.status().pending == [
        "1 task waits for a seat to fall idle",
        "2 tasks wait for 1 cpu, 2 gpus on one node",
    ]


def test_seats_wait_for_a_node() -> None:
    scheduler = Scheduler(CoreSettings(), PlainErrors())
    bench = Bench(seats=0)
    bench.scheduler = scheduler
    bench.attach()
    bench.say(Scale(seats=2))
    assert bench.status().pending == ["2 seats wait for a node to connect"]
    bench.handle(NodeUp(node="n"))
    assert bench.status().pending == []


def test_only_the_first_troubles_are_told() -> None:
    bench = Bench(seats=5)
    for engine in range(1, 6):
        bench.exit(engine)
    assert len(bench.status().pending) == 3
    assert bench.status().problem.count("ended early") == 1


def test_pending_without_seats_and_after_a_restart() -> None:
    bench = Bench(seats=0)
    bench.submit(1)
    assert bench.status().pending == ["1 task waits for seats, and none are declared: scale up"]
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=0, pid=1)]))
    assert bench.status().pending == [
        "1 task waits for a seat to fall idle",
        "the hub was restarted: 1 engines have not told yet what they have",
    ]
