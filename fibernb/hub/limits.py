"""How many engines this host lets a hub have, and which limit it is that says so.

Everything is read once, at the start of the hub. Limits that cannot be read do not count.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fibernb.config import Config

FILES_PER_SEAT: Final = 3  # data and control link, and that of the session which the engine's own code may open
SPARE_FILES: Final = 64
THREADS_PER_SEAT: Final = 3
SPARE_THREADS: Final = 32
BYTES_PER_SEAT: Final = 4_000_000

PROC: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")


class Limit(NamedTuple):
    """At most so many seats, and why."""

    seats: int
    reason: str


def seat_limit(config: Config) -> Limit:
    """The tightest limit on the number of seats."""
    return min(_limits(config), key=lambda limit: limit.seats)


def raise_file_limit() -> int:
    """Allow this process as many open files as it may have; returns that number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 1 << 20
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft if soft != resource.RLIM_INFINITY else 1 << 20
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # macOS has a lower limit of its own
        return soft
    return wanted


def _limits(config: Config) -> Iterator[Limit]:
    if config.max_workers is not None:
        yield Limit(config.max_workers, f"the administrator allows {config.max_workers} (max_workers)")
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield Limit(max(0, files - SPARE_FILES) // FILES_PER_SEAT, f"{files} open files are allowed (ulimit -Hn)")
    yield from _process_limits()
    yield from _memory_limits()


def _process_limits() -> Iterator[Limit]:
    used = _threads_in_use()
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY and os.getuid() != 0:
        yield _by_threads(soft - used, f"{soft} processes are allowed (ulimit -u)")
    for name in ("pid_max", "threads-max"):
        allowed = _number(PROC / "sys/kernel" / name)
        if allowed is not None:
            yield _by_threads(allowed - used, f"the system allows {allowed} threads (kernel.{name})")
    for group in cgroups("pids"):
        allowed = _number(group / "pids.max")
        if allowed is not None:
            free = allowed - (_number(group / "pids.current") or 0)
            yield _by_threads(free, f"this container allows {allowed} threads (pids.max)")


def _by_threads(free: int, reason: str) -> Limit:
    return Limit(max(0, free - SPARE_THREADS) // THREADS_PER_SEAT, reason)


def _memory_limits() -> Iterator[Limit]:
    free = _free_memory_bytes()
    if free is not None:
        yield Limit(free // BYTES_PER_SEAT, f"{free // 1_000_000} MB of memory are free")
    for group in cgroups("memory"):
        allowed = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
        used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes") or 0
        if allowed is not None:
            seats = max(0, allowed - used + _reclaimable_bytes(group)) // BYTES_PER_SEAT
            yield Limit(seats, f"this container is allowed {allowed // 1_000_000} MB of memory")


def cgroups(controller: str) -> list[Path]:
    """The directories of this process's control group and its parents, in either version of the kernel's interface."""
    for line in _lines(PROC / "self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0" or controller in controllers.split(","):
            root = CGROUPS if number == "0" else CGROUPS / controller
            leaf = root / path.lstrip("/")
            found = [place for place in (leaf, *leaf.parents) if place.is_relative_to(root) and place.is_dir()]
            if number != "0" or any((place / f"{controller}.max").exists() for place in found):
                return found
    return []


def _reclaimable_bytes(group: Path) -> int:
    """File pages that the control group holds and gives back under pressure."""
    stat = dict(line.split(" ", 1) for line in _lines(group / "memory.stat"))
    return int(stat.get("inactive_file", stat.get("total_inactive_file", "0")))


def _threads_in_use() -> int:
    """Of all users together, which is at least what this user has."""
    fields = " ".join(_lines(PROC / "loadavg")).split()
    return int(fields[3].split("/")[1]) if len(fields) > 3 else 0


def _free_memory_bytes() -> int | None:
    for line in _lines(PROC / "meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _number(path: Path) -> int | None:
    """What a file of the kernel holds; None when there is none, or when it says ``max``."""
    text = " ".join(_lines(path))
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
