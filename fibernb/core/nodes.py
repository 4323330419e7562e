"""Nodes and their resources, in whole thousandths (memory: bytes), so that sums are exact.

A node has one logical cpu a seat, so a task that asks for one cpu (or less) needs exactly a seat, and that is the
whole of its accounting. A task that asks for *n* > 1 cpus runs on one engine and keeps *n - 1* further seats of that
node empty: the node counts them as ``extra_milli``. Gpus, memory and custom resources come from the node's capacity.
"""

from __future__ import annotations

from collections.abc import Iterable

from fibernb.model import Resources

SEAT_MILLI = 1000


def is_plain(resources: Resources) -> bool:
    """Whether a seat is all that a task needs."""
    return (
        resources.milli_cpus <= SEAT_MILLI
        and not resources.milli_gpus
        and not resources.memory_bytes
        and not any(resources.custom.values())
    )


def extra_milli(resources: Resources) -> int:
    """Cpu that a task needs beyond its own seat."""
    return max(0, resources.milli_cpus - SEAT_MILLI)


def describe(resources: Resources) -> str:
    """For people: "2 cpus, 1 gpus, 4000000 bytes of memory"."""
    parts = [f"{_amount(resources.milli_cpus)} cpus"]
    if resources.milli_gpus:
        parts.append(f"{_amount(resources.milli_gpus)} gpus")
    if resources.memory_bytes:
        parts.append(f"{resources.memory_bytes} bytes of memory")
    parts += [f"{_amount(amount)} {name}" for name, amount in sorted(resources.custom.items()) if amount]
    return ", ".join(parts)


def _amount(thousandths: int) -> str:
    return f"{thousandths / 1000:g}"


class Node:
    """What one node has and what of it is in use."""

    __slots__ = ("capacity", "custom", "extra_milli", "idle", "memory_bytes", "milli_gpus", "name", "seats", "slots")

    def __init__(self, name: str, slots: int | None, capacity: Resources) -> None:
        self.name = name
        self.slots = slots
        self.capacity = capacity
        self.seats = 0  # engines placed here
        self.idle = 0  # of them idle
        self.extra_milli = 0
        self.milli_gpus = 0
        self.memory_bytes = 0
        self.custom: dict[str, int] = {}

    def has_slot(self) -> bool:
        return self.slots is None or self.seats < self.slots

    def free_seats(self) -> int:
        """Idle seats that no running task of several cpus keeps empty."""
        return self.idle - -(-self.extra_milli // SEAT_MILLI)

    def fits(self, asked: Resources) -> bool:
        """Whether a task can run here now, one of the idle seats being its own."""
        return (
            self.idle * SEAT_MILLI - self.extra_milli >= SEAT_MILLI + extra_milli(asked)
            and self.milli_gpus + asked.milli_gpus <= self.capacity.milli_gpus
            and self.memory_bytes + asked.memory_bytes <= self.capacity.memory_bytes
            and all(
                self.custom.get(name, 0) + amount <= self.capacity.custom.get(name, 0)
                for name, amount in asked.custom.items()
            )
        )

    def could_fit(self, asked: Resources, seats: int) -> bool:
        """Whether a task could run here if all else had ended and the cluster had ``seats`` seats."""
        seats = seats if self.slots is None else min(seats, self.slots)
        return (
            asked.milli_cpus <= seats * SEAT_MILLI
            and asked.milli_gpus <= self.capacity.milli_gpus
            and asked.memory_bytes <= self.capacity.memory_bytes
            and all(amount <= self.capacity.custom.get(name, 0) for name, amount in asked.custom.items())
        )

    def reserve(self, asked: Resources, sign: int = 1) -> None:
        """Count a task's needs as used; ``sign`` -1 gives them back."""
        self.extra_milli += sign * extra_milli(asked)
        self.milli_gpus += sign * asked.milli_gpus
        self.memory_bytes += sign * asked.memory_bytes
        for name, amount in asked.custom.items():
            self.custom[name] = self.custom.get(name, 0) + sign * amount

    def release(self, asked: Resources) -> None:
        self.reserve(asked, -1)


def largest(nodes: Iterable[Node], seats: int) -> str:
    """For people: the most that one task could ever have."""
    texts = [
        describe(
            Resources(
                milli_cpus=SEAT_MILLI * (seats if node.slots is None else min(seats, node.slots)),
                milli_gpus=node.capacity.milli_gpus,
                memory_bytes=node.capacity.memory_bytes,
                custom=node.capacity.custom,
            )
        )
        for node in nodes
    ]
    return " or ".join(dict.fromkeys(texts))
