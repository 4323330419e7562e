from fibernb.core.messages import CreateGroup
from fibernb.core.nodes import Node
from fibernb.core.placements import Placement
from fibernb.model import ONE_CPU, Resources


def test_a_group_is_there_when_all_its_bundles_are() -> None:
    made = Placement(CreateGroup(group=1, bundles=[ONE_CPU, ONE_CPU]), 5)
    node = Node("n", None, Resources(milli_cpus=0))
    node.idle = 2
    assert (made.state, made.placed()) == ("PENDING", False)
    for bundle in made.bundles:
        bundle.place(node)
    assert made.state == "CREATED"
    made.ended = "it was removed"
    assert made.state == "REMOVED"


def test_a_task_may_run_in_one_bundle_or_in_any() -> None:
    made = Placement(CreateGroup(group=1, bundles=[ONE_CPU, ONE_CPU]), 5)
    assert made.choice(-1) == made.bundles
    assert made.choice(1) == made.bundles[1:]
    assert made.choice(2) == []
