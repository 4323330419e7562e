from fibernb.core.leases import Bundle, Lease
from fibernb.core.nodes import Node
from fibernb.model import ONE_CPU, Resources


def node() -> Node:
    made = Node("n", None, Resources(milli_cpus=0, milli_gpus=2000))
    made.idle = 4
    return made


HALF = Resources(milli_cpus=500, milli_gpus=500)


def test_beside_the_seats_all_of_it_counts() -> None:
    there = node()
    lease = Lease(there, there, HALF)
    assert (there.free_milli(), lease.gpus) == (3500, (0,))
    lease.end()
    assert there.free_milli() == 4000
    assert there.stock.devices.used() == 0


def test_on_a_seat_the_seat_stands_for_one_cpu() -> None:
    there = node()
    lease = Lease(there, there, HALF, on_seat=True)
    there.idle -= 1
    assert there.free_milli() == 3500
    there.idle += 1
    lease.end()
    assert there.free_milli() == 4000


def test_what_lasts_is_known() -> None:
    there = node()
    lease = Lease(there, there, ONE_CPU, lasting=True)
    assert there.lasting_milli == 1000
    lease.end()
    assert there.lasting_milli == 0


def test_cpus_are_lent_and_taken_back() -> None:
    there = node()
    lease = Lease(there, there, HALF)
    lease.lend(True)
    lease.lend(True)
    assert there.free_milli() == 4000
    assert there.stock.devices.used() == 500, "gpus are not lent"
    lease.lend(False)
    assert there.free_milli() == 3500
    lease.lend(True)
    lease.end()
    assert there.free_milli() == 4000


def test_a_bundle_has_what_it_has_reserved() -> None:
    there = node()
    bundle = Bundle(Resources(milli_cpus=2000, milli_gpus=1000))
    assert not bundle.fits(ONE_CPU)
    there.stock.devices.take({0: 1})  # so that it gets the other one
    bundle.place(there)
    assert there.free_milli() == 2000
    assert bundle.fits(Resources(milli_cpus=2000, milli_gpus=1000))
    assert not bundle.fits(Resources(milli_cpus=2001))
    assert bundle.could_fit(Resources(milli_gpus=1000))
    assert not bundle.could_fit(Resources(milli_cpus=3000))
    assert not bundle.could_fit(Resources(milli_gpus=2000))
    lease = Lease(bundle, there, HALF, on_seat=True)
    assert lease.gpus == (1,)
    assert (bundle.free_milli(), there.free_milli()) == (1500, 3000), "the seat is not free, and it was reserved"
    assert not bundle.fits(Resources(milli_gpus=501))
    lease.end()
    bundle.vacate()
    bundle.vacate()
    assert (there.free_milli(), there.lasting_milli) == (4000, 0)
    assert not bundle.fits(ONE_CPU)
