"""What becomes of descriptors that are left with the store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fibernb.model import COUNTER_BITS
from fibernb.store.deposits import Deposits

GENERATION = 7


@pytest.fixture
def fds() -> Iterator[list[int]]:
    """Some that may be closed."""
    made = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
    yield made
    for fd in made:
        with suppress(OSError):
            os.close(fd)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_it_is_handed_out_once_and_then_closed(fds: list[int]) -> None:
    deposits = Deposits(GENERATION)
    ticket = deposits.add(1, 5, fds[0], lasting=False)
    assert ticket >> COUNTER_BITS == GENERATION
    assert deposits.find(ticket) == fds[0]
    deposits.handed_out(ticket)
    assert deposits.find(ticket) is None
    assert not is_open(fds[0])
    assert len(deposits) == 0


def test_a_lasting_one_stays_until_it_is_reclaimed(fds: list[int]) -> None:
    deposits = Deposits(GENERATION)
    ticket = deposits.add(1, 5, fds[0], lasting=True)
    deposits.handed_out(ticket)
    assert deposits.find(ticket) == fds[0]
    deposits.reclaim([ticket, ticket, 99])
    assert deposits.find(ticket) is None
    assert not is_open(fds[0])
    deposits.detach(1)


def test_with_a_link_go_its_lasting_ones_only(fds: list[int]) -> None:
    deposits = Deposits(GENERATION)
    once, lasting = deposits.add(1, 1, fds[0], False), deposits.add(1, 2, fds[1], True)
    others = deposits.add(2, 1, fds[2], True)
    deposits.detach(1)
    assert [deposits.find(ticket) for ticket in (once, lasting, others)] == [fds[0], None, fds[2]]
    assert [is_open(fd) for fd in fds] == [True, False, True]


def test_only_the_latest_request_of_a_link_is_withdrawn(fds: list[int]) -> None:
    deposits = Deposits(GENERATION)
    first, second = deposits.add(1, 1, fds[0], False), deposits.add(1, 2, fds[1], True)
    deposits.withdraw(1, 1)
    deposits.withdraw(3, 2)
    assert deposits.find(first) is not None
    deposits.withdraw(1, 2)
    assert deposits.find(second) is None
    assert not is_open(fds[1])
