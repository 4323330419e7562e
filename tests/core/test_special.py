from fibernb.core.events import EngineAttached, NodeLost, NodeUp
from fibernb.core.messages import Blocked, CreateActor, CreateGroup, RemoveGroup, Scale
from fibernb.core.settings import CoreSettings
from fibernb.model import ActorOptions, Resources, TaskOptions
from tests.core.bench import Bench, F, G, task
from tests.core.invariants import board_of


def options(milli_cpus: int = 1000, milli_gpus: int = 0, **more: object) -> TaskOptions:
    resources = Resources(milli_cpus=milli_cpus, milli_gpus=milli_gpus)
    return TaskOptions(resources=resources, **more)  # type: ignore[arg-type]


def two_nodes(seats: int = 2) -> Bench:
    """A bench with a second node; seats are spread over both."""
    bench = Bench(seats=0)
    bench.handle(NodeUp(node="other", capacity=Resources(milli_cpus=0, milli_gpus=1000)))
    bench.say(Scale(seats=seats))
    bench.seat_all()
    return bench


def nodes_of(bench: Bench) -> dict[str, list[int]]:
    board = board_of(bench.scheduler)
    found: dict[str, list[int]] = {}
    for engine, calls in bench.calls().items():
        found.setdefault(board.engines[engine].node, []).extend(calls)
    return found


def test_what_needs_no_cpu_leaves_the_seats_to_others() -> None:
    bench = Bench(seats=1)
    bench.submit(1, 2, 3, options=options(0))
    assert bench.starts() == [-2, -3, -4]
    bench.seat_all()
    assert sorted(bench.calls().values()) == [[task(1)], [task(2)], [task(3)]]
    assert bench.status().busy == 0
    bench.submit(4)
    assert bench.calls() == {1: [task(4)]}


def test_no_more_engines_are_started_at_a_time_than_are_allowed() -> None:
    bench = Bench(seats=1, settings=CoreSettings(max_starting=2))
    bench.submit(*range(1, 9), options=options(0))
    assert bench.starts() == [-2, -3]
    bench.seat_all()
    assert len(bench.calls()) == 2
    assert bench.starts() == [-4, -5]


def test_two_halves_share_a_cpu() -> None:
    bench = Bench(seats=1)
    bench.submit(1, 2, 3, options=options(500))
    assert bench.calls() == {1: [task(1)]}
    assert bench.starts() == [-2]
    bench.seat_all()
    [(extra, calls)] = bench.calls().items()
    assert calls == [task(2)]
    bench.done(extra, task(2))
    assert bench.calls() == {extra: [task(3)]}


def test_a_runtime_environment_has_engines_of_its_own() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=options(environment='{"a":1}'))
    assert bench.starts() == [-2]
    assert bench.commands[-1].environment == '{"a":1}'  # type: ignore[union-attr]
    bench.submit(2)
    assert bench.calls() == {1: [task(2)]}
    bench.handle(EngineAttached(engine=2, rank=-2, pid=1))
    assert not bench.runs(), "the cpu is taken"
    bench.done(1, task(2))
    assert bench.calls() == {2: [task(1)]}


def test_short_calls_of_that_kind_travel_together() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-5)
    bench.submit(1, 2, 3, options=options(environment='{"a":1}'))
    bench.seat_all()
    assert list(bench.calls().values()) == [[task(1), task(2), task(3)]]


def test_gpus_are_told_by_number() -> None:
    bench = Bench(seats=3)
    bench.submit(1, 2, 3, options=options(1000, 700))
    gpus = {run.calls[0].id: run.gpus for _, run in bench.runs()}
    assert gpus == {task(1): (0,), task(2): (1,)}


def test_a_node_that_is_named_is_kept_to_or_preferred() -> None:
    bench = two_nodes(4)
    bench.submit(1, 2, 3, options=options(node="other"))
    assert nodes_of(bench) == {"other": [task(1), task(2)]}
    bench.submit(4, options=options(node="other", soft=True))
    assert nodes_of(bench) == {"local": [task(4)]}


def test_tasks_are_spread_or_packed() -> None:
    bench = two_nodes(4)
    bench.submit(1, 2, options=options(spread=True))
    assert nodes_of(bench) == {"local": [task(1)], "other": [task(2)]}
    bench.submit(3, options=options(1000, 1000))
    assert nodes_of(bench) == {"local": [task(3)]}
    bench.submit(4, options=options(1000, 1000))
    assert nodes_of(bench) == {"other": [task(4)]}


def test_where_an_engine_is_there_already_comes_first() -> None:
    bench = two_nodes(2)
    bench.submit(1, options=options(0, node="other"))
    bench.seat_all()
    [(engine, _)] = bench.calls().items()
    bench.done(engine, task(1))
    bench.submit(2, options=options(0))
    assert bench.calls() == {engine: [task(2)]}


def test_plain_tasks_make_room_for_one_that_waits_long() -> None:
    bench = Bench(seats=2)
    bench.submit(1, 2)
    bench.submit(3, options=options(2000))
    bench.submit(4)
    bench.wait(1.1)
    bench.done(1, task(1))
    assert not bench.runs()
    bench.done(2, task(2))
    assert list(bench.calls().values()) == [[task(3)]]


def test_they_do_not_for_one_that_waits_for_what_lasts() -> None:
    bench = Bench(seats=2)
    actor = ActorOptions(resources=Resources(milli_cpus=1000))
    bench.say(CreateActor(actor=task(90), function=F, args=b"", options=actor))
    bench.seat_all()
    [engine] = bench.calls()
    bench.done(engine, task(90))
    bench.submit(3, options=options(2000))
    bench.submit(4, function=G)
    bench.wait(1.1)
    bench.done(1, task(4))
    bench.submit(5, function=G)
    assert bench.calls() == {1: [task(5)]}
    bench.submit(6, options=options(0, placement=0, node="local"))
    bench.wait(1.1)


def test_an_actor_waits_for_its_resources() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    actor = ActorOptions(resources=Resources(milli_cpus=1000), class_name="C")
    bench.say(CreateActor(actor=task(90), function=F, args=b"", options=actor))
    assert not bench.starts()
    assert bench.status().pending == ["the actor C waits for 1 cpu on one node"]
    bench.say(Blocked(task=task(1)))
    assert bench.starts() == [-2]
    assert "the actor C waits for its engine to start" in bench.status().pending


def test_in_a_placement_group() -> None:
    bench = Bench(seats=2)
    bench.say(CreateGroup(group=task(80), bundles=[Resources(), Resources(milli_gpus=1000)]))
    bench.submit(1, 2, 3, options=options(placement=task(80)), function=G)
    assert len(bench.calls()) == 2
    bench.submit(4, options=options(1000, 1000, placement=task(80), bundle=1))
    bench.wait(1.1)
    assert board_of(bench.scheduler).starving_since is None, "seats that fall idle would not help"
    bench.say(RemoveGroup(group=task(80)))
    board = board_of(bench.scheduler)
    assert not board.special.count


def test_an_actor_that_has_lost_its_node_is_placed_again() -> None:
    bench = two_nodes(2)
    options = ActorOptions(max_restarts=1, node="local", soft=True)
    bench.say(CreateActor(actor=task(90), function=F, args=b"", options=options))
    bench.seat_all()
    bench.handle(NodeLost(node="local", reason="it broke"))
    assert board_of(bench.scheduler).seats[-2].node == "other"
