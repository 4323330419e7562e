"""Descriptors as tickets: who can redeem them, and what is left of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import fibernb as fnb
from fibernb import multiprocessing as mp
from fibernb.client.cluster import Cluster
from fibernb.errors import ClusterError
from fibernb.multiprocessing import descriptors, places
from fibernb.multiprocessing.connection import Pipe


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)


def test_a_ticket_is_good_for_one_taker(cluster: Cluster, pipe: tuple[int, int]) -> None:
    read, write = pipe
    ticket = descriptors.deposit(write)
    os.close(write)
    taken = descriptors.redeem(ticket)
    os.write(taken, b"x")
    os.close(taken)
    assert os.read(read, 10) == b"x"
    assert os.read(read, 10) == b""
    with pytest.raises(ClusterError, match="can be unpickled once"):
        descriptors.redeem(ticket)


def test_a_lasting_one_for_many_until_it_is_withdrawn(cluster: Cluster, pipe: tuple[int, int]) -> None:
    read, write = pipe
    ticket = descriptors.deposit(write, lasting=True)
    os.close(write)

    def write_into(number: int) -> int:
        fd = descriptors.redeem(ticket)
        os.write(fd, bytes([number]))
        os.close(fd)
        return number

    assert cluster.ranks[:].apply(write_into, 7) == [7, 7]
    assert os.read(read, 10) == b"\7\7"
    descriptors.withdraw(ticket)
    assert os.read(read, 10) == b""


def test_what_is_pickled_for_nobody_is_withdrawn(cluster: Cluster) -> None:
    reading, writing = Pipe(duplex=False)
    with descriptors.collecting() as tickets:
        mp.reduction.dumps([writing])
    writing.close()
    assert len(tickets) == 1
    assert not reading.poll(0)
    descriptors.withdraw(*tickets)
    descriptors.withdraw()
    with pytest.raises(EOFError):
        reading.recv()


def test_a_process_that_dies_before_it_has_its_arguments_holds_nothing(cluster: Cluster) -> None:
    reading, writing = Pipe(duplex=False)
    child = mp.Process(target=print, args=(writing,))
    child.start()
    child.kill()
    writing.close()
    child.join()
    with pytest.raises(EOFError):
        reading.recv()


@pytest.mark.parametrize(
    ("change", "says"),
    [({"host": "elsewhere"}, "host elsewhere cannot be used on host"), ({"cluster": "fnb-0-"}, "of another cluster")],
)
def test_what_is_out_of_reach_says_so(cluster: Cluster, change: dict[str, Any], says: str) -> None:
    ticket = descriptors.deposit(0)
    with pytest.raises(ClusterError, match=says):
        descriptors.redeem(msgspec.structs.replace(ticket, **change))
    os.close(descriptors.redeem(ticket))


def test_a_place_is_of_this_host_and_cluster(cluster: Cluster) -> None:
    place = places.place_of("thing", "key")
    assert place.host == platform.node()
    assert places.home() == cluster.directory
    assert places.key_at(place) == "key"
    assert cluster.ranks[:].apply(places.key_at, place) == ["key", "key"]


def test_nothing_is_withdrawn_from_a_cluster_that_has_ended(cluster: Cluster) -> None:
    """The last test here: it ends the cluster."""
    ticket = descriptors.deposit(0)
    fnb.shutdown()
    descriptors.withdraw(ticket)
    assert not fnb.is_initialized()
