from fibernb.core.devices import Devices, numbered


def test_devices_are_numbered_and_a_part_of_one_is_one_too() -> None:
    assert numbered(0) == {}
    assert numbered(2000) == {0: 1000, 1: 1000}
    assert numbered(1500) == {0: 1000, 1: 500}


def test_whole_ones_are_had_alone() -> None:
    devices = Devices(numbered(2000))
    shares = devices.choose(1000)
    assert shares == {0: 1000}
    devices.take(shares)
    assert devices.choose(1000) == {1: 1000}
    assert devices.choose(2000) is None
    devices.take(shares, -1)
    assert devices.choose(2000) == {0: 1000, 1: 1000}
    assert devices.used() == 0


def test_fractions_share_the_fullest_one_that_has_room() -> None:
    devices = Devices(numbered(2000))
    devices.take({1: 500})
    assert devices.choose(500) == {1: 500}
    assert devices.choose(600) == {0: 600}
    assert devices.choose(1500) == {0: 1000, 1: 500}
    assert devices.choose(1600) is None
    devices.take({0: 600})
    assert devices.choose(600) is None


def test_nothing_is_there_for_those_who_ask_for_nothing() -> None:
    assert Devices({}).choose(0) == {}
    assert Devices({}).choose(1) is None
