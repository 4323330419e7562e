"""What people are told when the store is full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fibernb.store.room import Room

MEGABYTE: Final = 1_000_000
OWNERS: Final = 5  # at most that are named

ADVICE: Final = "raise store_bytes (FIBERNB_STORE_BYTES)"
DISK_ADVICE: Final = " or spill_bytes (FIBERNB_SPILL_BYTES)"


def too_large(size_bytes: int, room: Room) -> str:
    """Why a value can never be stored."""
    limit = room.limits
    because = f" ({limit.arena_reason})" if limit.arena_reason else ""
    return (
        f"a value of {megabytes(size_bytes)} is larger than the whole object store, which may have "
        f"{megabytes(limit.arena_bytes)} of shared memory{because}: split the value, or {ADVICE}"
    )


def full(size_bytes: int, room: Room, pinned: Mapping[str, int]) -> str:
    """Why there is no room for a value now."""
    parts = [
        f"there is no room for a value of {megabytes(size_bytes)} in the object store",
        f"{megabytes(room.arena.used_bytes)} of {megabytes(room.limits.arena_bytes)} of shared memory are in use"
        + _by_whom(pinned),
        _spilled(room),
    ]
    if room.growth_problem:
        parts.append(room.growth_problem)
    more_disk = DISK_ADVICE if _exceeds_quota(size_bytes, room) else ""
    return (
        f"{'; '.join(parts)}. Drop what you do not need (del the arrays and their references), or {ADVICE}{more_disk}"
    )


def _exceeds_quota(size_bytes: int, room: Room) -> bool:
    limit = room.limits.spill_bytes
    return bool(limit) and not room.spill_problem and room.spill.used_bytes + size_bytes > limit


def megabytes(size_bytes: int) -> str:
    return f"{size_bytes / MEGABYTE:,.1f} MB"


def _by_whom(pinned: Mapping[str, int]) -> str:
    if not pinned:
        return ""
    largest = sorted(pinned.items(), key=lambda item: -item[1])
    named = ", ".join(f"{owner}: {megabytes(size)}" for owner, size in largest[:OWNERS])
    more = f" and {len(largest) - OWNERS} others" if len(largest) > OWNERS else ""
    return f", by arrays that live in {named}{more}"


def _spilled(room: Room) -> str:
    limits = room.limits
    if room.spill_problem:
        return f"nothing can be spilled to disk: {room.spill_problem}"
    if not limits.spill_bytes:
        return f"nothing can be spilled to disk{': ' + limits.spill_reason if limits.spill_reason else ''}"
    where = f" in {limits.spill_reason}" if limits.spill_reason else ""
    return f"{megabytes(room.spill.used_bytes)} of {megabytes(limits.spill_bytes)} are spilled to disk{where}"
