"""Blocks of memory with a name, which every process of the cluster on this host can attach.

Within the system the names have the prefix of the cluster. So clusters do not get in each other's way, and what nobody
has unlinked goes with the cluster; no process has to keep track of it.
"""

from __future__ import annotations

import mmap
import os
import types
from _posixshmem import shm_open, shm_unlink  # type: ignore[import-not-found]  # it has no types
from multiprocessing import shared_memory
from typing import Any, Final, TypeAlias

from fibernb.multiprocessing.places import Place, cluster_prefix, key_at, place_of

__all__ = ["ShareableList", "SharedMemory"]

KIND: Final = "shared memory"
MODE: Final = 0o600

Reduced: TypeAlias = tuple[Any, tuple[Any, ...]]


class SharedMemory(shared_memory.SharedMemory):
    """A new block, or the one of that name.

    One that was made by a process outside of the cluster is found too, if the cluster has none of that name.

    Parameters
    ----------
    name : None: one is made up for a new block.
    create : make a new block. Raises `FileExistsError` when there is one of that name.
    size : of a new block, in bytes.
    track : taken for the library's sake: there is no need.
    """

    _name: str
    _prefix: str  # of its name within the system
    _fd: int
    _mmap: mmap.mmap
    _size: int
    _buf: memoryview | None

    def __init__(
        self,
        name: str | None = None,
        create: bool = False,
        size: int = 0,
        *,
        track: bool = True,  # noqa: ARG002
    ) -> None:
        if size < 0:
            raise ValueError(f"the size of shared memory must be a positive number, not {size}")
        if create and size == 0:
            raise ValueError("new shared memory needs a size: a positive number different from zero")
        if not create and name is None:
            raise ValueError("'name' can only be None if create=True")
        self._open(name, create)
        try:
            if create:
                os.ftruncate(self._fd, size)
            self._size = os.fstat(self._fd).st_size
            self._mmap = mmap.mmap(self._fd, self._size)
        except OSError:
            if create:
                self.unlink()
            raise
        self._buf = memoryview(self._mmap)

    def __reduce__(self) -> Reduced:
        return attach, (type(self), place_of(KIND, self.name))

    def unlink(self) -> None:
        shm_unlink(self._path())

    def _open(self, name: str | None, create: bool) -> None:
        if name is not None:
            self._name = f"/{name}"
            self._open_path(create)
            return
        while True:
            self._name = shared_memory._make_filename()  # type: ignore[attr-defined]
            try:
                self._open_path(create)
            except FileExistsError:
                continue
            return

    def _open_path(self, create: bool) -> None:
        self._prefix = cluster_prefix()
        try:
            self._fd = shm_open(self._path(), os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0), mode=MODE)
        except FileNotFoundError:
            self._prefix = ""
            self._fd = shm_open(self._path(), os.O_RDWR, mode=MODE)

    def _path(self) -> str:
        return f"/{self._prefix}{self._name[1:]}"


class ShareableList(shared_memory.ShareableList[Any]):
    """A list of a fixed length and of plain values, in shared memory."""

    shm: SharedMemory

    def __init__(self, sequence: Any = None, *, name: str | None = None) -> None:
        _make_list(self, sequence, name=name)

    def __reduce__(self) -> Reduced:
        return attach_list, (type(self), place_of(KIND, self.shm.name))


def attach(class_: type[SharedMemory], place: Place) -> SharedMemory:
    """Called while unpickling. Raises `ClusterError` on another host."""
    return class_(str(key_at(place)))


def attach_list(class_: type[ShareableList], place: Place) -> ShareableList:
    """Called while unpickling. Raises `ClusterError` on another host."""
    return class_(name=str(key_at(place)))


def _on_our_memory(method: types.FunctionType) -> Any:
    """A method of the library that makes shared memory, to make it here."""
    surroundings = {**method.__globals__, "SharedMemory": SharedMemory}
    rebound = types.FunctionType(method.__code__, surroundings, method.__name__)
    rebound.__kwdefaults__, rebound.__defaults__ = method.__kwdefaults__, method.__defaults__
    return rebound


_make_list: Final = _on_our_memory(shared_memory.ShareableList.__init__)  # type: ignore[arg-type]


def __getattr__(name: str) -> Any:
    """What else the library's module has."""
    return getattr(shared_memory, name)
