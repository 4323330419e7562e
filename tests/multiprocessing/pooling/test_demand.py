from __future__ import annotations

import pytest

from fibernb.errors import ConfigError
from fibernb.multiprocessing.pooling.demand import IDLE_S, Demand, parse


def wanted(demand: Demand, now: float, current: int, busy: int, items: int, item_s: float | None = None) -> int:
    return demand.wanted(now=now, current=current, busy=busy, items=items, item_s=item_s)


def test_it_grows_with_the_work_up_to_its_bound() -> None:
    demand = parse("1:4")
    assert wanted(demand, 0, 1, 0, 0) == 1
    assert wanted(demand, 0, 1, 1, 2) == 3
    assert wanted(demand, 0, 3, 3, 100) == 4


def test_a_little_waiting_work_is_worth_one_worker() -> None:
    assert wanted(Demand(1, 9), 0, 1, 1, 1000, item_s=10e-6) == 2


def test_long_items_get_a_worker_each() -> None:
    assert wanted(Demand(1, 9), 0, 1, 1, 3, item_s=5.0) == 4


def test_it_shrinks_to_what_was_needed_once_that_has_lasted() -> None:
    demand = Demand(1, 8)
    assert wanted(demand, 0, 8, 2, 0) == 8
    assert demand.look_again_s(10) == IDLE_S - 10
    assert wanted(demand, IDLE_S / 2, 8, 3, 0) == 8
    assert wanted(demand, IDLE_S, 8, 0, 0) == 3
    assert demand.look_again_s(IDLE_S) is None


def test_it_stays_when_work_comes_back() -> None:
    demand = Demand(1, 8)
    wanted(demand, 0, 4, 0, 0)
    assert wanted(demand, 30, 4, 4, 0) == 4
    assert demand.look_again_s(30) is None
    assert wanted(demand, IDLE_S, 4, 0, 0) == 4


@pytest.mark.parametrize("text", ["", "3", "a:b", "0:0", "4:2", "1:", ":4", "-1:3"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="processes cannot be"):
        parse(text)
