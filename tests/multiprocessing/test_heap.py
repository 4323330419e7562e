"""Blocks of shared memory: who has them, and when they are used again."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Any

import psutil
import pytest

import fibernb as fnb
import fibernb.multiprocessing as multiprocessing
from fibernb import serialize
from fibernb.client.cluster import Cluster
from fibernb.errors import ActorDied
from fibernb.hub.connection import read_connection
from fibernb.multiprocessing import heap
from fibernb.multiprocessing.heap import BufferWrapper, Heap

pytestmark = pytest.mark.usefixtures("cluster")

LATER = 1e12  # monotonic seconds


@pytest.fixture(autouse=True)
def own_heap(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = Heap()
    monkeypatch.setattr(BufferWrapper, "_heap", found)
    return found


def view(buffer: BufferWrapper) -> memoryview:
    memory: memoryview = buffer.create_memoryview()
    return memory


def place(buffer: BufferWrapper) -> Any:
    state: Any = buffer._state
    return state[0]


def test_a_block_that_was_not_sent_is_free_at_once(own_heap: Any) -> None:
    buffer = BufferWrapper(100)
    assert len(view(buffer)) == 100
    del buffer
    gc.collect()
    assert own_heap._n_mallocs == own_heap._n_frees == 1


@pytest.mark.parametrize("size", [-1, -8, -9])
def test_negative_sizes(size: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        BufferWrapper(size)


@pytest.mark.parametrize("size", [sys.maxsize, sys.maxsize - 1])
def test_sizes_beyond_any_memory(size: int) -> None:
    with pytest.raises(OverflowError, match="too large"):
        BufferWrapper(size)


def test_what_comes_back_is_the_same_block() -> None:
    buffer = BufferWrapper(8)
    view(buffer)[0] = 7
    again = serialize.loads(serialize.dumps(buffer))
    assert view(again)[0] == 7
    assert place(again) == place(buffer)


def test_a_block_on_its_way_is_not_used_again(own_heap: Any) -> None:
    buffer = BufferWrapper(8)
    view(buffer)[0] = 7
    data = serialize.dumps(buffer)
    del buffer
    gc.collect()
    assert own_heap._n_frees == 0
    assert view(serialize.loads(data))[0] == 7
    gc.collect()
    heap._end_dropped(LATER)
    assert own_heap._n_frees == 1
    with pytest.raises(FileNotFoundError, match="has gone"):
        serialize.loads(data)


def test_a_block_that_another_process_uses_is_not_used_again_until_that_is_killed(own_heap: Any) -> None:
    class User:
        def keep(self, buffer: BufferWrapper) -> int:
            self.buffer = buffer
            return os.getpid()

        def write(self) -> None:
            view(self.buffer)[0] = 9

    user = fnb.remote(max_restarts=0)(User).remote()
    buffer = BufferWrapper(8)
    pid = fnb.get(user.keep.remote(buffer))
    key = buffer._block.hold.key
    fnb.get(user.write.remote())
    assert view(buffer)[0] == 9
    del buffer
    gc.collect()
    heap._end_dropped(LATER)
    assert own_heap._n_frees == 0
    assert key in heap._dropped
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ActorDied):
        fnb.get(user.write.remote())
    heap._dropped[key] = (0.0, heap._dropped[key][1])
    heap._end_dropped(LATER)
    assert own_heap._n_frees == 1


def test_a_process_passes_on_what_it_was_given() -> None:
    first, last = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue()

    def pass_on(first: Any, last: Any) -> None:
        last.put(first.get())

    process = multiprocessing.Process(target=pass_on, args=(first, last))
    process.start()
    buffer = BufferWrapper(8)
    first.put(buffer)
    again = last.get()
    process.join()
    view(again)[3] = 5
    assert view(buffer)[3] == 5


def test_a_forked_child_frees_nothing(own_heap: Any) -> None:
    buffer = BufferWrapper(8)
    pid = os.fork()
    if pid == 0:
        buffer._block.hold.drop()
        os._exit(own_heap._n_frees)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(view(buffer)) == 8


def test_large_blocks_give_their_memory_back(own_heap: Any) -> None:
    buffer = BufferWrapper(10_000_000)
    assert len(own_heap._arenas) == 1
    del buffer
    gc.collect()
    assert own_heap._arenas == []


def test_memory_outlives_the_store_that_it_was_left_with(cluster: Cluster) -> None:
    buffer = BufferWrapper(8)
    serialize.dumps(buffer)
    store = next(child for child in node_of(cluster).children() if child.name() == "fibernb-store")
    store.kill()
    store.wait()

    @fnb.remote
    def write(buffer: BufferWrapper) -> None:
        view(buffer)[0] = 3

    fnb.get(write.remote(buffer))
    assert view(buffer)[0] == 3


def node_of(cluster: Cluster) -> psutil.Process:
    return psutil.Process(read_connection(cluster.directory).node_pid)
