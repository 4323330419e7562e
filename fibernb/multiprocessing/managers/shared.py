"""`SharedMemoryManager`: blocks of shared memory that go with their manager."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from fibernb.multiprocessing.managers.base import BaseManager
from fibernb.multiprocessing.managers.links import internal
from fibernb.multiprocessing.managers.server import Server
from fibernb.multiprocessing.shared_memory import ShareableList, SharedMemory


class SharedMemoryServer(Server):
    """Knows the blocks of its manager by name, and removes them at its end."""

    public = [*Server.public, "track_segment", "release_segment", "list_segments"]

    def __init__(self, registry: dict[str, Any], address: Any, authkey: bytes, serializer: str) -> None:
        super().__init__(registry, address, authkey, serializer)
        self._segments: list[str] = []

    def track_segment(self, c: Any, segment_name: str) -> None:  # noqa: ARG002  the library's signature
        """Remove this block at the end."""
        self._segments.append(segment_name)

    def release_segment(self, c: Any, segment_name: str) -> None:  # noqa: ARG002  the library's signature
        """Remove this block now."""
        self._segments.remove(segment_name)
        _remove(segment_name)

    def list_segments(self, c: Any) -> list[str]:  # noqa: ARG002  the library's signature
        """The names of the blocks that there are."""
        return self._segments

    def shutdown(self, c: Any) -> None:
        for name in self._segments:
            _remove(name)
        super().shutdown(c)


class SharedMemoryManager(BaseManager):
    """Makes blocks of shared memory, and lists in such, that are removed when it is shut down.

    They are in the memory of this host: processes of other hosts cannot attach to them.
    """

    _Server = SharedMemoryServer

    def SharedMemory(self, size: int) -> SharedMemory:  # noqa: N802  the library's name
        """A new block of so many bytes."""
        with self._Client(self._address, authkey=self._authkey) as connection:
            block = SharedMemory(None, create=True, size=size)
            _track(connection, block)
        return block

    def ShareableList(self, sequence: Iterable[Any]) -> ShareableList:  # noqa: N802  the library's name
        """A new list in shared memory, of numbers, strings, bytes and None."""
        with self._Client(self._address, authkey=self._authkey) as connection:
            made = ShareableList(sequence)
            _track(connection, made.shm)
        return made


def _track(connection: Any, block: Any) -> None:
    try:
        internal.dispatch(connection, None, "track_segment", (block.name,))
    except BaseException:
        block.close()
        block.unlink()
        raise


def _remove(name: str) -> None:
    """Remove a block, unless somebody has done so."""
    with contextlib.suppress(FileNotFoundError):
        block = SharedMemory(name)
        block.close()
        block.unlink()
