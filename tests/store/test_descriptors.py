"""Descriptors that travel through a real store process."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable
from typing import Any

import pytest

from fibernb.errors import ClusterError
from fibernb.store.agent import StoreAgent
from fibernb.store.link import StoreLink
from tests.store.serving import Served
from tests.store.test_agent import wait_for

Make = Callable[..., StoreAgent]


def is_open(fd: int) -> bool:
    """Whether somebody can still write into a pipe."""
    os.set_blocking(fd, False)
    try:
        return os.read(fd, 1) != b""
    except BlockingIOError:
        return True


def ends(fd: int) -> bool:
    """Wait until nobody can write into a pipe any more."""
    os.set_blocking(fd, True)
    return os.read(fd, 1) == b""


def is_refused(taker: StoreAgent, ticket: int) -> bool:
    try:
        os.close(taker.redeem(ticket))
    except ClusterError:
        return True
    return False


def test_one_end_of_a_pipe_goes_to_another_process(served: Served, agents: Make) -> None:
    giver, taker = agents(served), agents(served)
    read, write = os.pipe()
    ticket = giver.deposit(write)
    os.close(write)
    taken = taker.redeem(ticket)
    assert not os.get_inheritable(taken)
    os.write(taken, b"hello")
    assert os.read(read, 10) == b"hello"
    assert is_open(read)
    os.close(taken)
    assert ends(read), "the store keeps nothing open"
    with pytest.raises(ClusterError, match="has been received before"):
        taker.redeem(ticket)
    os.close(read)


def test_many_at_once_are_not_mixed_up(served: Served, agents: Make) -> None:
    giver, taker = agents(served), agents(served)
    pairs = [socket.socketpair() for _ in range(50)]
    tickets = [giver.deposit(mine.fileno()) for mine, _ in pairs]
    for ticket, (mine, other) in reversed(list(zip(tickets, pairs, strict=True))):
        with socket.socket(fileno=taker.redeem(ticket)) as taken:
            taken.send(str(ticket).encode())
        mine.close()
        assert other.recv(100) == str(ticket).encode()
        other.close()


def test_what_is_lasting_goes_with_its_owner(served: Served, agents: Make) -> None:
    giver, taker = agents(served), agents(served)
    read, write = os.pipe()
    lasting, once = giver.deposit(write, lasting=True), giver.deposit(write)
    for _ in range(3):
        os.close(taker.redeem(lasting))
    giver.close()
    os.close(write)
    wait_for(lambda: is_refused(taker, lasting))
    assert is_open(read), "what is to be taken once stays for its taker"
    os.close(taker.redeem(once))
    assert ends(read)
    os.close(read)


def test_what_nobody_takes_is_reclaimed(served: Served, agents: Make) -> None:
    giver = agents(served)
    read, write = os.pipe()
    tickets = [giver.deposit(write), giver.deposit(write, lasting=True)]
    os.close(write)
    giver.reclaim([*tickets, 12345])
    giver.reclaim([])
    giver.describe()
    assert ends(read)
    os.close(read)


def test_a_deposit_that_was_interrupted_is_withdrawn(
    served: Served, agents: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    giver = agents(served)
    giver.describe()
    read, write = os.pipe()

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StoreLink, "_answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            giver.deposit(write)
    os.close(write)
    assert is_open(read)
    giver.describe()
    assert ends(read)
    os.close(read)


def test_a_redemption_that_was_interrupted_mixes_nothing_up(
    served: Served, agents: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    giver, taker = agents(served), agents(served)
    (lost, lost_other), (wanted, wanted_other) = socket.socketpair(), socket.socketpair()
    first, second = giver.deposit(lost.fileno()), giver.deposit(wanted.fileno())
    lost.close()
    answer = StoreLink._answer

    def interrupted(link: StoreLink, request: int, kind: Any) -> Any:
        answer(link, request, kind)
        raise KeyboardInterrupt

    taker.describe()
    with monkeypatch.context() as patch:
        patch.setattr(StoreLink, "_answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            taker.redeem(first)
    with socket.socket(fileno=taker.redeem(second)) as taken:
        taken.send(b"mine")
    assert wanted_other.recv(10) == b"mine"
    assert lost_other.recv(10) == b"", "closed, since nobody has it"
    for each in (wanted, wanted_other, lost_other):
        each.close()


def test_a_store_that_was_started_anew_knows_no_old_tickets(served: Served, agents: Make) -> None:
    agent = agents(served)
    ticket = agent.deposit(0)
    served.start_again()
    with pytest.raises(ClusterError, match="started anew"):
        agent.redeem(ticket)
    os.close(agent.redeem(agent.deposit(0)))


def test_a_store_without_room_for_more_says_so(served: Served, agents: Make) -> None:
    agent = agents(served)
    agent.describe()
    resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (64, 64))
    tickets: list[int] = []

    def fill() -> None:
        while True:
            tickets.append(agent.deposit(0))

    with pytest.raises(ClusterError, match="ulimit -n"):
        fill()
    assert tickets
    agent.reclaim(tickets[:1])
    agent.describe()  # a deposit right behind it would arrive while that is still open
    tickets[:1] = [agent.deposit(0)]
    for ticket in tickets:
        os.close(agents(served).redeem(ticket))  # there is room for links
