from fibernb.core.events import NodeUp
from fibernb.core.messages import Autoscale, CreateGroup, RemoveGroup
from fibernb.model import Outcome, Resources, TaskOptions
from tests.core.bench import ANNA, Bench, task
from tests.core.invariants import board_of

P = task(700_000)


def answer(bench: Bench, options: TaskOptions) -> bytes:
    """What such a task is answered with at once; empty if it is taken."""
    bench.submit(1, options=options)
    outcome, value = bench.results(ANNA).get(task(1), (Outcome.OK, b""))
    assert bool(outcome) == bool(value)
    return value


def test_more_than_there_can_ever_be() -> None:
    options = TaskOptions(resources=Resources(milli_cpus=3000))
    assert answer(Bench(seats=2), options).startswith(b"unschedulable: 3 cpus of 2 cpus, 2 gpus")
    assert not answer(Bench(seats=3), options)


def test_autoscaling_may_bring_it() -> None:
    bench = Bench(seats=1)
    bench.say(Autoscale(minimum=1, maximum=4))
    assert not answer(bench, TaskOptions(resources=Resources(milli_cpus=3000)))


def test_nobody_knows_without_seats_or_nodes() -> None:
    assert not answer(Bench(seats=0), TaskOptions(resources=Resources(milli_cpus=3000)))
    bench = Bench(seats=0)
    board_of(bench.scheduler).nodes.clear()
    assert not answer(bench, TaskOptions(resources=Resources(milli_cpus=0, milli_gpus=99_000)))
    assert answer(Bench(seats=0), TaskOptions(resources=Resources(milli_cpus=0, milli_gpus=99_000)))


def test_a_node_that_is_not_there() -> None:
    bench = Bench()
    bench.handle(NodeUp(node="other"))
    assert answer(bench, TaskOptions(node="third")) == b"unschedulable: the node 'third' of the node local or other"
    assert not answer(Bench(), TaskOptions(node="third", soft=True))
    assert not answer(Bench(), TaskOptions(node="local"))


def test_a_placement_group_that_is_not_there() -> None:
    assert b"nobody held it any more" in answer(Bench(), TaskOptions(placement=P))
    bench = Bench()
    bench.say(CreateGroup(group=P, bundles=[Resources()]))
    bench.say(RemoveGroup(group=P))
    assert b"it was removed" in answer(bench, TaskOptions(placement=P))
    bench = Bench()
    board_of(bench.scheduler).unsettled = True
    assert not answer(bench, TaskOptions(placement=P))


def test_a_bundle_that_is_too_small_or_not_there() -> None:
    bench = Bench()
    bench.say(CreateGroup(group=P, bundles=[Resources(), Resources(milli_gpus=1000)]))
    gpu = Resources(milli_gpus=1000)
    assert answer(bench, TaskOptions(placement=P, bundle=0, resources=gpu)) == (
        b"unschedulable: 1 cpu, 1 gpu of a bundle of 1 cpu"
    )
    bench.acknowledge(9)
    assert b"2 bundles, none of number 2" in answer(bench, TaskOptions(placement=P, bundle=2))
    bench.acknowledge(9)
    assert not answer(bench, TaskOptions(placement=P, resources=gpu))
