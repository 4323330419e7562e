from __future__ import annotations

from fibernb.multiprocessing.pooling.pace import CHUNK_BYTES, CHUNK_ITEMS, CHUNK_S, Pace, Paces


def test_nothing_is_known_at_first() -> None:
    pace = Pace()
    assert pace.fitting() == 0
    assert not pace.is_short()


def test_hundreds_of_microseconds_travel_together_and_one_of_milliseconds() -> None:
    tiny, middling, long = Pace(), Pace(), Pace()
    tiny.note(100, 100 * 10e-6)
    middling.note(1, 1e-3)
    long.note(1, 0.1)
    assert 100 <= tiny.fitting() <= 1000
    assert middling.fitting() == CHUNK_S / 1e-3
    assert long.fitting() == 0
    assert tiny.is_short()
    assert not long.is_short()


def test_items_that_take_no_time_are_limited_by_number() -> None:
    pace = Pace()
    pace.note(10, 0.0)
    assert pace.fitting() == CHUNK_ITEMS


def test_large_items_are_limited_by_size() -> None:
    pace = Pace()
    pace.note(10, 0.0)
    pace.note_size(2, CHUNK_BYTES)
    assert pace.fitting() == 2


def test_newer_measurements_move_the_average() -> None:
    pace = Pace()
    pace.note(1, 1.0)
    for _ in range(50):
        pace.note(1, 0.001)
    assert pace.item_s is not None
    assert 0.001 <= pace.item_s < 0.0011


def test_a_size_that_the_user_has_chosen_is_kept() -> None:
    paces = Paces()
    paces.of_chunks(10).note(1, 1e-6)
    assert paces.of_chunks(10).fitting() == 1
    assert paces.calls.item_s is None
