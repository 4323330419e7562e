from fibernb.core.nodes import Node, describe, extra_milli, is_plain, largest
from fibernb.model import ONE_CPU, Resources

CAPACITY = Resources(milli_cpus=0, milli_gpus=2000, memory_bytes=100, custom={"disk": 1500})


def node(idle: int = 4, slots: int | None = None) -> Node:
    made = Node("n", slots, CAPACITY)
    made.seats = made.idle = idle
    return made


def test_a_plain_task_needs_a_seat_and_nothing_else() -> None:
    assert is_plain(ONE_CPU)
    assert is_plain(Resources(milli_cpus=500, custom={"disk": 0}))
    assert not is_plain(Resources(milli_cpus=1001))
    assert not is_plain(Resources(milli_gpus=1))
    assert not is_plain(Resources(memory_bytes=1))
    assert not is_plain(Resources(custom={"disk": 1}))


def test_cpu_beyond_the_own_seat() -> None:
    assert extra_milli(Resources(milli_cpus=500)) == 0
    assert extra_milli(Resources(milli_cpus=3500)) == 2500


def test_description_for_people() -> None:
    asked = Resources(milli_cpus=500, milli_gpus=1000, memory_bytes=7, custom={"b": 1000, "a": 2000, "none": 0})
    assert describe(asked) == "0.5 cpus, 1 gpus, 7 bytes of memory, 2 a, 1 b"
    assert describe(ONE_CPU) == "1 cpus"


def test_slots() -> None:
    assert node().has_slot()
    assert node(idle=2, slots=3).has_slot()
    assert not node(idle=3, slots=3).has_slot()


def test_a_task_of_several_cpus_needs_as_many_idle_seats() -> None:
    assert node(idle=2).fits(Resources(milli_cpus=2000))
    assert not node(idle=1).fits(Resources(milli_cpus=2000))
    assert not node(idle=0).fits(Resources(milli_gpus=1))


def test_reserving_and_releasing_are_exact() -> None:
    made = node()
    asked = Resources(milli_cpus=2300, milli_gpus=700, memory_bytes=60, custom={"disk": 1000})
    assert made.fits(asked)
    made.reserve(asked)
    made.idle -= 1
    assert made.free_seats() == 1
    assert not made.fits(Resources(milli_cpus=1000, memory_bytes=41))
    assert not made.fits(Resources(milli_cpus=1000, custom={"disk": 501}))
    assert not made.fits(Resources(milli_cpus=1000, milli_gpus=1301))
    assert made.fits(Resources(milli_cpus=1000, milli_gpus=1300, memory_bytes=40, custom={"disk": 500}))
    made.release(asked)
    assert (made.extra_milli, made.milli_gpus, made.memory_bytes, made.custom) == (0, 0, 0, {"disk": 0})


def test_what_could_fit_if_all_else_had_ended() -> None:
    assert node(idle=0).could_fit(Resources(milli_cpus=8000, milli_gpus=2000), seats=8)
    assert not node().could_fit(Resources(milli_cpus=8001), seats=8)
    assert not node(slots=4).could_fit(Resources(milli_cpus=5000), seats=8)
    assert not node().could_fit(Resources(milli_gpus=2001), seats=8)
    assert not node().could_fit(Resources(memory_bytes=101), seats=8)
    assert not node().could_fit(Resources(custom={"tape": 1}), seats=8)


def test_the_most_that_there_is() -> None:
    small = Node("s", 1, Resources(milli_cpus=0))
    assert largest([node(), node(), small], 3) == "3 cpus, 2 gpus, 100 bytes of memory, 1.5 disk or 1 cpus"
