from fibernb.core.events import NodeLost, NodeUp
from fibernb.core.grouping import asked_milli
from fibernb.core.messages import CreateActor, CreateGroup, Fetch, KillActor, Release, RemoveGroup, Scale
from fibernb.model import ActorOptions, Outcome, Resources, TaskOptions
from tests.core.bench import Bench, F, G, task
from tests.core.invariants import board_of

P = task(700_000)
CPU = Resources()
TWO = Resources(milli_cpus=2000)
IN = TaskOptions(placement=P)


def create(bench: Bench, *bundles: Resources, strategy: str = "PACK", **more: object) -> tuple[Outcome, bytes] | None:
    """Ask for a group; what its object is, if that is known at once."""
    bench.say(CreateGroup(group=P, bundles=list(bundles), strategy=strategy, **more))  # type: ignore[arg-type]
    bench.say(Fetch(objects=[P]))
    return bench.results().get(P)


def nodes_of(bench: Bench) -> list[str]:
    bundles = board_of(bench.scheduler).placements[P].bundles
    return [bundle.node.name if bundle.node is not None else "" for bundle in bundles]


def three_nodes(*slots: int) -> Bench:
    """A bench whose nodes have so many seats each."""
    bench = Bench(seats=0)
    capacity = Resources(milli_cpus=0)
    for number, count in enumerate(slots):
        name = "local" if not number else f"n{number}"
        bench.handle(NodeUp(node=name, slots=count, capacity=capacity))
    bench.say(Scale(seats=sum(slots)))
    bench.seat_all()
    return bench


def test_it_keeps_seats_empty_and_its_tasks_take_them() -> None:
    bench = Bench(seats=2)
    outcome, value = create(bench, CPU) or (Outcome.ERROR, b"")
    assert (outcome, value) == (Outcome.OK, b"\x80\x05N.")
    bench.submit(1, 2)
    assert bench.calls() == {1: [task(1)]}
    bench.submit(3, 4, options=IN)
    assert bench.calls() == {2: [task(3)]}
    bench.done(2, task(3))
    assert bench.calls() == {2: [task(4)]}


def test_it_waits_until_all_of_it_is_free() -> None:
    bench = Bench(seats=2)
    bench.submit(1)
    assert create(bench, CPU, CPU, name="pair") is None
    assert asked_milli(board_of(bench.scheduler)) == 2000
    reason = "the placement group 'pair' waits for its resources: PACK of 2 x [1 cpu]"
    assert bench.status().pending == [reason]
    bench.submit(2, options=IN)
    assert "1 task waits for 1 cpu in the placement group" in bench.status().pending
    bench.done(1, task(1))
    assert P in bench.results()
    bench.drain()


def test_what_can_never_be_is_refused() -> None:
    assert (create(Bench(seats=2), CPU, TWO) or (0, b""))[1].startswith(
        b"unschedulable: PACK of [1 cpu], [2 cpus] of 1 node with 2 cpus"
    )
    assert create(Bench(seats=0), CPU, TWO) is None
    assert b"3 x [2 cpus] of 3 nodes with" in (create(three_nodes(1, 2, 1), TWO, TWO, TWO) or (0, b""))[1]
    assert create(Bench(seats=2), CPU, CPU, strategy="STRICT_SPREAD") is not None
    assert b"choose one of PACK, SPREAD" in (create(Bench(), CPU, strategy="SPRAY") or (0, b""))[1]


def test_packed_together_if_possible() -> None:
    bench = three_nodes(1, 3, 2)
    create(bench, CPU, TWO)
    assert nodes_of(bench) == ["n1", "n1"]
    bench = three_nodes(1, 3, 2)
    create(bench, TWO, CPU, TWO)
    assert nodes_of(bench) == ["n1", "n1", "n2"]


def test_strictly_packed_waits_for_one_node() -> None:
    bench = three_nodes(1, 3)
    bench.submit(1, options=TaskOptions(node="n1"))
    assert create(bench, TWO, CPU, strategy="STRICT_PACK") is None
    [engine] = bench.calls() or [board_of(bench.scheduler).tasks[task(1)].engine]
    bench.done(engine, task(1))
    assert nodes_of(bench) == ["n1", "n1"]
    outcome, _ = create(three_nodes(2, 2), TWO, CPU, strategy="STRICT_PACK") or (Outcome.OK, b"")
    assert outcome is Outcome.ERROR


def test_spread() -> None:
    bench = three_nodes(2, 2)
    create(bench, CPU, CPU, CPU, strategy="SPREAD")
    assert nodes_of(bench) == ["local", "n1", "local"]
    bench = three_nodes(2, 2)
    create(bench, CPU, TWO, strategy="STRICT_SPREAD")
    assert sorted(nodes_of(bench)) == ["local", "n1"]
    bench = three_nodes(2, 1)
    bench.submit(1)
    assert create(bench, TWO, CPU, strategy="SPREAD") is None


def test_it_is_removed_with_all_that_is_in_it() -> None:
    bench = Bench(seats=2)
    create(bench, CPU, CPU)
    options = ActorOptions(placement=P, resources=CPU, bundle=1)
    bench.say(CreateActor(actor=task(90), function=F, args=b"", options=options))
    bench.seat_all()
    [engine] = bench.calls()
    bench.done(engine, task(90))
    bench.submit(1, 2, options=IN, function=G)
    running = next(iter(bench.calls()))
    bench.say(RemoveGroup(group=P))
    assert sorted(bench.kills()) == sorted([running, engine])
    assert bench.results()[task(2)] == (Outcome.CANCELLED, b"cancelled: its placement group was removed")
    bench.exit(running)
    assert bench.results()[task(1)][0] is Outcome.CANCELLED
    bench.exit(engine)
    bench.say(RemoveGroup(group=P), RemoveGroup(group=P + 1))
    assert board_of(bench.scheduler).nodes["local"].extra_milli == 0
    bench.say(Release(objects=[P, task(90)]))
    assert not board_of(bench.scheduler).placements


def test_it_goes_when_nobody_holds_it_and_nothing_is_in_it() -> None:
    bench = Bench(seats=2)
    create(bench, CPU)
    bench.say(CreateGroup(group=P, bundles=[CPU]))
    bench.submit(1, options=IN)
    bench.say(Release(objects=[P]))
    assert P in board_of(bench.scheduler).placements
    bench.done(1, task(1))
    assert P not in board_of(bench.scheduler).placements
    bench.submit(2, 3)
    assert len(bench.calls()) == 2


def test_a_detached_one_stays() -> None:
    bench = Bench(seats=2)
    create(bench, CPU, detached=True)
    bench.say(Release(objects=[P]))
    assert P in board_of(bench.scheduler).placements
    bench.say(CreateGroup(group=P, bundles=[CPU]))
    assert not board_of(bench.scheduler).unheld_placements
    bench.say(Release(objects=[P]))
    bench.say(RemoveGroup(group=P))
    assert P not in board_of(bench.scheduler).placements


def test_each_on_a_node_of_its_own_or_none() -> None:
    bench = three_nodes(1, 1)
    bench.submit(1)
    assert create(bench, CPU, CPU, strategy="STRICT_SPREAD") is None
    bench.done(1, task(1))
    assert sorted(nodes_of(bench)) == ["local", "n1"]


def test_an_actor_in_it_that_is_dead_stays_so() -> None:
    bench = Bench(seats=2)
    create(bench, CPU)
    options = ActorOptions(placement=P, resources=CPU)
    bench.say(CreateActor(actor=task(90), function=F, args=b"", options=options), KillActor(actor=task(90)))
    bench.say(RemoveGroup(group=P))
    assert board_of(bench.scheduler).actors[task(90)].ended == "it was killed"


def test_what_was_on_a_node_that_has_gone_is_reserved_again() -> None:
    bench = three_nodes(1, 1)
    create(bench, CPU, CPU, strategy="SPREAD")
    bench.handle(NodeLost(node="n1", reason="it broke"))
    assert nodes_of(bench) == ["local", ""]
    bench.handle(NodeUp(node="n1", slots=1))
    bench.seat_all()
    assert nodes_of(bench) == ["local", "n1"]
