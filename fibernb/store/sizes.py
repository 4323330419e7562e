"""How large a store may become: from the configuration and from what the host allows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fibernb.config import Config
from fibernb.errors import ConfigError
from fibernb.model import Struct
from fibernb.store.allocator import PAGE_BYTES
from fibernb.store.memory import Account, limit_bytes
from fibernb.store.room import Limits

ARENA_SHARE: Final = 0.3  # of the memory
DIRECTORY_SHARE: Final = 0.8  # of what is free where the arena is a file
SPILL_SHARE: Final = 0.5  # of what is free on the disk
AHEAD_SHARE: Final = 0.125  # of the arena, kept warm
AHEAD_BYTES: Final = 2**30  # and at most
UNKNOWN_MEMORY_BYTES: Final = 2**30
MEGABYTE: Final = 1_000_000

IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})  # file systems that are no disk


class Place(Struct, frozen=True, kw_only=True):
    """A directory for a file of ours."""

    directory: str
    free_bytes: int


def limits(config: Config, memory: list[Account], arena: Place | None, spill: Place | None) -> Limits:
    """What a store may use.

    Parameters
    ----------
    arena : where the arena is a file; None: it is memory without one.
    spill : where values are spilled; None: there is no place for them.
    """
    arena_bytes, arena_reason = _arena(config, memory, arena)
    spill_bytes, spill_reason = _spill(config, spill)
    arena_bytes = max(arena_bytes - arena_bytes % PAGE_BYTES, PAGE_BYTES)
    return Limits(
        arena_bytes=arena_bytes,
        spill_bytes=spill_bytes,
        ahead_bytes=min(int(arena_bytes * AHEAD_SHARE), AHEAD_BYTES),
        arena_reason=arena_reason,
        spill_reason=spill_reason,
    )


def _arena(config: Config, memory: list[Account], place: Place | None) -> tuple[int, str]:
    if config.store_bytes is not None:
        return config.store_bytes, "as store_bytes says"
    total = limit_bytes(memory) or UNKNOWN_MEMORY_BYTES
    share = int(total * ARENA_SHARE)
    if place is not None and place.free_bytes * DIRECTORY_SHARE < share:
        free = f"{place.free_bytes / MEGABYTE:,.0f} MB"
        return int(place.free_bytes * DIRECTORY_SHARE), f"80 % of the {free} that are free in {place.directory}"
    return share, f"30 % of {total / MEGABYTE:,.0f} MB of memory"


def _spill(config: Config, place: Place | None) -> tuple[int, str]:
    if place is None:
        return 0, "no directory on a disk was found for it: set spill_dir (FIBERNB_SPILL_DIR)"
    if config.spill_bytes is not None:
        return config.spill_bytes, place.directory
    return int(place.free_bytes * SPILL_SHARE), place.directory


# ---- places ---------------------------------------------------------------------------------------------


def arena_place(config: Config) -> Place | None:
    """Where the arena is a file, if it is to be. Raises `ConfigError` when there cannot be one."""
    return _place(config.store_dir, "store_dir") if config.store_dir else None


def spill_place(config: Config, directory: Path) -> Place | None:
    """Where to spill. Raises `ConfigError` for a ``spill_dir`` that cannot be used.

    Parameters
    ----------
    directory : of the cluster, which is one of the places that are tried.
    """
    if config.spill_dir:
        return _place(config.spill_dir, "spill_dir")
    mounts = _mounts()
    for candidate in (tempfile.gettempdir(), "/var/tmp", str(directory), os.path.expanduser("~")):
        if os.access(candidate, os.W_OK) and file_system(candidate, mounts) not in IN_MEMORY:
            return _place(candidate, "spill_dir")
    return None


def file_system(path: str, mounts: Iterable[str]) -> str:
    """The type of the file system that a path is on, from lines such as those of ``/proc/self/mounts``."""
    real, best = os.path.realpath(path), ("", "")
    for line in mounts:
        _, point, kind, *_ = line.split(" ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):  # of two at one place, the later covers the earlier
            best = point, kind
    return best[1]


def _mounts() -> list[str]:
    try:
        return Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return []


def _place(directory: str, key: str) -> Place:
    try:
        status = os.statvfs(directory)
    except OSError as error:
        raise ConfigError(f"{key} is {directory!r}, which cannot be used: {error.strerror}") from error
    return Place(directory=directory, free_bytes=status.f_bavail * status.f_frsize)
