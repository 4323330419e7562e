"""How much memory this host has, and how much of it our control group lets us have (version 1 or 2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fibernb.model import Struct

UNLIMITED: Final = 2**60  # version 1 writes "no limit" as a number near 2**63

_USAGE: Final = ("memory.current", "memory.usage_in_bytes")
_LIMIT: Final = ("memory.max", "memory.limit_in_bytes")
_RECLAIMABLE: Final = ("inactive_file", "total_inactive_file")  # of memory.stat: goes when somebody needs it


class Account(Struct, frozen=True, kw_only=True):
    """Memory that is shared by some: those of a host, or of a control group."""

    what: str  # "this host" or "the control group"
    limit_bytes: int
    used_bytes: int  # that cannot be reclaimed

    @property
    def free_bytes(self) -> int:
        return max(self.limit_bytes - self.used_bytes, 0)

    @property
    def fraction(self) -> float:
        return self.used_bytes / max(self.limit_bytes, 1)


def accounts(root: Path = Path("/")) -> list[Account]:
    """The host's account, and those of our control group and the groups around it that have a limit.

    Parameters
    ----------
    root : where ``proc`` and ``sys`` are.
    """
    host = _host(root)
    groups = [_group(directory) for directory in _directories(root)]
    return [account for account in (host, *groups) if account is not None]


def tightest(found: list[Account]) -> Account | None:
    """The account of which the largest part is used."""
    return max(found, key=lambda account: account.fraction, default=None)


def limit_bytes(found: list[Account]) -> int:
    """The memory that there is for us at most; 0 when nothing is known."""
    return min((account.limit_bytes for account in found), default=0)


def _host(root: Path) -> Account | None:
    sizes = {}
    for line in _lines(root / "proc/meminfo"):
        name, _, rest = line.partition(":")
        sizes[name] = int(rest.split()[0]) * 1024
    total = sizes.get("MemTotal")
    if total is None:
        return None
    available = sizes.get("MemAvailable", sizes.get("MemFree", 0))
    return Account(what="this host", limit_bytes=total, used_bytes=total - available)


def _group(directory: Path) -> Account | None:
    limit = _number(directory, _LIMIT)
    usage = _number(directory, _USAGE)
    if limit is None or usage is None or limit >= UNLIMITED:
        return None
    reclaimable = 0
    for line in _lines(directory / "memory.stat"):
        name, _, value = line.partition(" ")
        if name in _RECLAIMABLE:
            reclaimable = max(reclaimable, int(value))
    return Account(what="the control group", limit_bytes=limit, used_bytes=max(usage - reclaimable, 0))


def _directories(root: Path) -> Iterator[Path]:
    """Of our control group and those around it, as far as they can be seen."""
    mount = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base = mount
        elif "memory" in controllers.split(","):
            base = mount / "memory"
        else:
            continue
        steps = [step for step in path.split("/") if step not in ("", "..")]
        yield from (base.joinpath(*steps[:depth]) for depth in range(len(steps), -1, -1))


def _number(directory: Path, names: tuple[str, ...]) -> int | None:
    for name in names:
        for line in _lines(directory / name):
            return int(line) if line.isdigit() else None
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
