from collections import Counter

from fibernb.core.explaining import pending, why
from fibernb.core.messages import CreateActor, CreateGroup
from fibernb.model import ActorOptions, Resources, TaskOptions
from tests.core.bench import Bench, F, G, task
from tests.core.invariants import board_of
from tests.core.test_acting import call


def options(milli_cpus: int = 1000, **more: object) -> TaskOptions:
    return TaskOptions(resources=Resources(milli_cpus=milli_cpus), **more)  # type: ignore[arg-type]


def test_tasks_say_what_they_wait_for() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.submit(2, deps=[task(1)])
    bench.submit(3, 4)
    bench.submit(5, options=options(500, node="local"))
    bench.submit(6, options=options(500, node="local", soft=True))
    bench.pin(7, [0])
    assert bench.status().pending == [
        "1 task waits for inputs",
        "2 tasks wait for a seat to fall idle",
        "1 task waits for 0.5 cpus on the node local",
        "1 task waits for 0.5 cpus on one node",
        "1 task waits for the ranks that were chosen",
    ]


def test_seats_that_are_kept_empty_are_named() -> None:
    bench = Bench(seats=1)
    bench.say(CreateGroup(group=task(90), bundles=[Resources()]))
    bench.submit(1)
    kept = "(1 are kept empty for actors, placement groups and tasks of several cpus)"
    assert bench.status().pending == [f"1 task waits for a seat to fall idle {kept}"]
    bench.submit(2, options=options(placement=task(90)), function=G)
    bench.submit(3, options=options(placement=task(90)), function=G)
    assert "1 task waits for 1 cpu in the placement group" in bench.status().pending


def test_actors_and_their_calls() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    for number in (90, 91):
        resources = Resources(milli_cpus=1000 * (91 - number))
        actor = ActorOptions(class_name=f"C{number}", resources=resources)
        bench.say(CreateActor(actor=task(number), function=F, args=b"", options=actor))
    call(bench, 5, actor=task(91))
    assert bench.status().pending == [
        "the actor C90 waits for 1 cpu on one node",
        "the actor C91 waits for its engine to start",
        "1 call waits for the actor C91, which is STARTING",
    ]


def test_each_task_says_what_it_waits_for() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.submit(2, deps=[task(1)])
    bench.submit(3)
    bench.submit(4, options=options(500))
    bench.pin(5, [0])
    actor = ActorOptions(class_name="C", resources=Resources(milli_cpus=1000))
    bench.say(CreateActor(actor=task(90), function=F, args=b"", options=actor))
    call(bench, 6, actor=task(90))
    board = board_of(bench.scheduler)
    assert {number: why(board, board.tasks[task(number)]) for number in range(1, 7)} == {
        1: "",
        2: "its inputs",
        3: "a seat to fall idle",
        4: "0.5 cpus on one node",
        5: "rank 0, which was chosen",
        6: "the actor C, which is PENDING",
    }


def test_nothing_can_run_without_seats() -> None:
    bench = Bench(seats=0)
    bench.submit(1)
    board = board_of(bench.scheduler)
    assert why(board, board.tasks[task(1)]) == "seats, and none are declared: scale up"
    assert bench.status().pending == ["1 task waits for seats, and none are declared: scale up"]


def test_groups_seats_and_the_hub() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(CreateGroup(group=task(90), bundles=[Resources()]))
    board = board_of(bench.scheduler)
    assert "a placement group waits for its resources: PACK of [1 cpu]" in bench.status().pending
    board.recovering[1] = None
    board.nodes.clear()
    board.wanted[0] = None
    assert pending(board, Counter())[-2:] == [
        "1 seat waits for a node to connect",
        "the hub was restarted: 1 engines have not told yet what they have",
    ]
