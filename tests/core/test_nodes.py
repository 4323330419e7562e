from fibernb.core.nodes import PLENTY, Node, describe, held_seats, is_plain, largest, listed, often
from fibernb.model import ONE_CPU, Resources

ROOMY = Resources(milli_cpus=0, milli_gpus=2000, memory_bytes=100, custom={"disk": 1000})


def node(idle: int = 4, slots: int | None = None) -> Node:
    made = Node("n", slots, ROOMY)
    made.idle = made.seats = idle
    return made


def test_a_task_of_one_cpu_needs_a_seat_and_nothing_else() -> None:
    assert is_plain(ONE_CPU)
    assert is_plain(Resources(custom={"disk": 0}))
    assert not is_plain(Resources(milli_cpus=500))
    assert not is_plain(Resources(milli_cpus=2000))
    assert not is_plain(Resources(milli_gpus=1))
    assert not is_plain(Resources(memory_bytes=1))
    assert not is_plain(Resources(custom={"disk": 1}))


def test_people_read_what_is_asked_for() -> None:
    asked = Resources(milli_cpus=1500, milli_gpus=500, memory_bytes=7, custom={"b": 1000, "a": 2000, "c": 0})
    assert describe(asked) == "1.5 cpus, 0.5 gpus, 7 bytes of memory, 2 a, 1 b"
    assert describe(ONE_CPU) == "1 cpu"
    assert describe(Resources(milli_cpus=0, milli_gpus=1000, memory_bytes=2_527_651_020)) == "1 gpu, 2.53 GB of memory"
    assert describe(Resources(milli_cpus=0)) == "0 cpus"


def test_people_read_bundles_that_are_alike_once() -> None:
    assert listed([ONE_CPU]) == "[1 cpu]"
    assert listed([ONE_CPU, Resources(milli_cpus=2000), ONE_CPU]) == "2 x [1 cpu], [2 cpus]"


def test_cpus_are_those_of_idle_seats_less_what_runs_beside_them() -> None:
    made = node(idle=2)
    assert made.free_milli() == 2000
    made.count_cpus(1500)
    assert made.free_milli() == 500
    assert made.has_cpus(500)
    assert not made.has_cpus(501)
    made.count_cpus(-1500)
    made.count_cpus(2500)
    assert made.free_milli() == -500
    assert made.has_cpus(0), "what needs no cpu fits always"


def test_a_task_fits_where_all_that_it_asks_for_is_free() -> None:
    made = node(idle=3)
    asked = Resources(milli_cpus=2000, milli_gpus=1500, memory_bytes=60, custom={"disk": 600})
    assert made.fits(asked)
    assert not made.fits(Resources(milli_cpus=4000))
    shares = made.stock.take(asked)
    assert shares == {0: 1000, 1: 500}
    assert made.fits(Resources(milli_gpus=500, memory_bytes=40, custom={"disk": 400}))
    assert not made.fits(Resources(milli_gpus=501))
    assert not made.fits(Resources(memory_bytes=41))
    assert not made.fits(Resources(custom={"disk": 401}))
    assert not made.fits(Resources(custom={"tape": 1}))
    assert made.stock.free(1234) == Resources(milli_cpus=1234, milli_gpus=500, memory_bytes=40, custom={"disk": 400})
    made.stock.give_back(asked, shares)
    assert made.stock.free(0) == ROOMY


def test_what_could_fit_if_all_else_had_ended() -> None:
    assert node(idle=0).could_fit(Resources(milli_cpus=8000, milli_gpus=2000), seats=8)
    assert not node().could_fit(Resources(milli_cpus=8001), seats=8)
    assert not node(slots=4).could_fit(Resources(milli_cpus=5000), seats=8)
    assert not node().could_fit(Resources(milli_gpus=2001), seats=8)
    assert not node().could_fit(Resources(memory_bytes=101), seats=8)
    assert not node().could_fit(Resources(custom={"tape": 1}), seats=8)


def test_a_node_may_tell_that_it_has_something_else() -> None:
    made = node()
    made.stock.take(Resources(milli_gpus=1000))
    made.stock.resize(Resources(milli_cpus=0, milli_gpus=3000))
    assert made.stock.free(0).milli_gpus == 2000


def test_engines_are_counted_by_kind_and_slots_are_for_seats() -> None:
    made = node(idle=0, slots=2)
    made.count_engine(0, 1)
    made.count_engine(-2, 1)
    assert (made.seats, made.extras) == (1, 1)
    assert made.has_slot()
    made.count_engine(1, 1)
    assert not made.has_slot()
    assert node().has_slot()


def test_how_often_something_fits() -> None:
    free = Resources(milli_cpus=4000, milli_gpus=1000, memory_bytes=10, custom={"disk": 3})
    assert often(free, Resources(milli_cpus=1500)) == 2
    assert often(free, Resources(milli_cpus=0, milli_gpus=250)) == 4
    assert often(free, Resources(milli_cpus=0, custom={"disk": 1, "tape": 0})) == 3
    assert often(free, Resources(milli_cpus=0)) == PLENTY


def test_seats_that_are_kept_empty() -> None:
    busy, lending = node(), node()
    busy.count_cpus(1500)
    lending.count_cpus(-1000)
    assert held_seats([busy, lending]) == 2


def test_the_most_that_a_task_could_have() -> None:
    text = largest([node(), node(), Node("m", 2, Resources())], seats=3)
    assert text == "3 cpus, 2 gpus, 100 bytes of memory, 1 disk or 2 cpus"
