"""Blocks of shared memory by name, and lists in them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing import shared_memory as library
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fibernb as fnb
from fibernb.client.cluster import Cluster
from fibernb.errors import ClusterError
from fibernb.multiprocessing import places, shared_memory
from fibernb.multiprocessing.shared_memory import ShareableList, SharedMemory
from tests.multiprocessing.conftest import Place, wait_until

pytestmark = pytest.mark.usefixtures("cluster")

MEMORY = Path("/dev/shm")


def memory_of(block: library.SharedMemory) -> memoryview:
    assert block.buf is not None
    return block.buf


@pytest.fixture
def block() -> Iterator[SharedMemory]:
    made = SharedMemory("block", create=True, size=1000)
    yield made
    made.close()
    made.unlink()


def test_others_attach_by_name_and_by_value(cluster: Cluster, block: SharedMemory) -> None:
    def write(found: SharedMemory, number: int) -> str:
        memory_of(found)[number] = number
        return found.name

    assert cluster.ranks[0].apply(write, block, 7) == ["block"]
    cluster.ranks[1].apply(lambda: write(SharedMemory("block"), 8))
    assert tuple(memory_of(block)[7:9]) == (7, 8)
    assert block.size == 1000
    assert isinstance(block, library.SharedMemory)


def test_names_are_the_clusters_own(cluster: Cluster, block: SharedMemory) -> None:
    with pytest.raises(FileExistsError):
        SharedMemory("block", create=True, size=1)
    assert not (MEMORY / "block").exists()
    made = SharedMemory(create=True, size=1)
    assert made.name.startswith("psm_")
    assert (MEMORY / (places.cluster_prefix() + made.name)).exists()
    made.unlink()
    with pytest.raises(FileNotFoundError):
        made.unlink()
    made.close()


def test_memory_of_others_is_found_too() -> None:
    theirs = library.SharedMemory(create=True, size=10)
    found = SharedMemory(theirs.name)
    memory_of(found)[0] = 5
    assert memory_of(theirs)[0] == 5
    found.close()
    theirs.close()
    theirs.unlink()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"create": True},
        {"create": True, "size": -1},
        {"name": "nobody made this"},
        {"name": "a\0b"},
    ],
)
def test_bad_input_as_the_library_answers_it(arguments: dict[str, Any]) -> None:
    with pytest.raises((ValueError, OSError)) as theirs:
        library.SharedMemory(**arguments)
    with pytest.raises(theirs.type):
        SharedMemory(**arguments)


def test_a_new_block_that_cannot_be_mapped_leaves_nothing() -> None:
    with pytest.raises(OSError, match=r"Cannot allocate|No space|too large"):
        SharedMemory("huge", create=True, size=2**62)
    with pytest.raises(FileNotFoundError):
        SharedMemory("huge")


def test_lists(cluster: Cluster) -> None:
    made = ShareableList([1, 2.5, "text", b"bytes", None, True], name="list")
    cluster.ranks[0].apply(lambda: ShareableList(name="list").__setitem__(0, 99))
    items: list[Any] = list(made)  # type: ignore[call-overload]  # which has no __iter__
    assert items == [99, 2.5, "text", b"bytes", None, True]
    assert list(pickle.loads(pickle.dumps(made))) == items
    assert isinstance(made.shm, SharedMemory)
    made.shm.close()
    made.shm.unlink()


def test_elsewhere_it_says_so(block: SharedMemory) -> None:
    attach, (kind, place) = block.__reduce__()
    with pytest.raises(ClusterError, match="shared memory of host elsewhere"):
        attach(kind, msgspec.structs.replace(place, host="elsewhere"))


def test_the_rest_is_the_librarys() -> None:
    assert shared_memory._SHM_NAME_PREFIX
    with pytest.raises(AttributeError):
        shared_memory.nonsense  # noqa: B018


def test_what_nobody_unlinked_goes_with_the_cluster(place: Place) -> None:
    """The last test here: it ends the cluster."""
    tracker = getattr(resource_tracker._resource_tracker, "_pid", None)
    made, prefix = SharedMemory("forgotten", create=True, size=10), places.cluster_prefix()
    assert getattr(resource_tracker._resource_tracker, "_pid", None) == tracker, "no tracker was started"
    made.close()
    fnb.shutdown()
    wait_until(lambda: not list(MEMORY.glob(f"{prefix}*")))
