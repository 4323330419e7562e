"""`SharedMemoryManager`: blocks that go with it."""

from __future__ import annotations

from typing import Any

import pytest

import fibernb.multiprocessing as multiprocessing
from fibernb.multiprocessing.managers import SharedMemoryManager
from fibernb.multiprocessing.shared_memory import SharedMemory


def test_a_block_and_a_list(cluster: object) -> None:
    with SharedMemoryManager() as manager:
        block: Any = manager.SharedMemory(size=16)
        numbers: Any = manager.ShareableList([1, 2.5, "three"])
        process = multiprocessing.Process(target=fill, args=(block, numbers))
        process.start()
        process.join()
        assert (bytes(block.buf[:3]), list(numbers)) == (b"abc", [2, 2.5, "three"])
        name = block.name
        block.close()
        numbers.shm.close()
    with pytest.raises(FileNotFoundError):
        SharedMemory(name)


def fill(block: Any, numbers: Any) -> None:
    block.buf[:3] = b"abc"
    numbers[0] += 1


def test_a_block_that_was_removed_before(cluster: object) -> None:
    with SharedMemoryManager() as manager:
        block = manager.SharedMemory(size=16)
        block.close()
        block.unlink()
    assert manager._process.exitcode == 0


def test_blocks_need_a_server(cluster: object) -> None:
    with pytest.raises(ValueError, match="unrecognized"):
        SharedMemoryManager().SharedMemory(size=16)
