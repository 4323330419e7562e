"""Nodes and their resources, in whole thousandths (memory: bytes), so that sums are exact.

A node has one logical cpu for each of its seats that is ready. What is free of them is what its idle seats stand for,
less ``extra_milli``: what runs beside the seats, or is reserved, counts there in full; a task of several cpus on a
seat with what goes beyond that seat; and a seat whose task waits for others, or needs less than a cpu, with a negative
amount, for that much of the seat is lent. An ordinary task needs exactly a seat, and that is the whole of its
accounting. Gpus, memory and custom resources come from the node's capacity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fibernb.core.devices import Devices, Shares, numbered
from fibernb.model import Resources

SEAT_MILLI = 1000
GIGA = 1e9
PLENTY = 1_000_000  # tasks that ask for nothing


def is_plain(resources: Resources) -> bool:
    """Whether a task needs a seat and nothing else."""
    return (
        resources.milli_cpus == SEAT_MILLI
        and not resources.milli_gpus
        and not resources.memory_bytes
        and not any(resources.custom.values())
    )


def describe(resources: Resources) -> str:
    """For people: "2 cpus, 1 gpu, 4.00 GB of memory"."""
    units = (("cpu", resources.milli_cpus), ("gpu", resources.milli_gpus))
    parts = [f"{_amount(amount)} {unit}{'' if amount == SEAT_MILLI else 's'}" for unit, amount in units if amount]
    if resources.memory_bytes:
        parts.append(f"{_size(resources.memory_bytes)} of memory")
    parts += [f"{_amount(amount)} {name}" for name, amount in sorted(resources.custom.items()) if amount]
    return ", ".join(parts) or "0 cpus"


def listed(bundles: Iterable[Resources]) -> str:
    """For people: "[2 cpus], 3 x [1 gpu]"."""
    counts = Counter(map(describe, bundles))
    return ", ".join(f"[{text}]" if count == 1 else f"{count} x [{text}]" for text, count in counts.items())


def _size(size_bytes: int) -> str:
    return f"{size_bytes / GIGA:.2f} GB" if size_bytes >= GIGA else f"{size_bytes:,} bytes"


def _amount(thousandths: int) -> str:
    return f"{thousandths / 1000:g}"


class Stock:
    """Gpus, memory and custom resources: what there is, and what of it is in use."""

    __slots__ = ("capacity", "custom", "devices", "memory_bytes")

    def __init__(self, capacity: Resources, shares: Shares | None = None) -> None:
        self.capacity = capacity
        self.devices = Devices(numbered(capacity.milli_gpus) if shares is None else shares)
        self.memory_bytes = 0
        self.custom: dict[str, int] = {}

    def resize(self, capacity: Resources) -> None:
        """It is something else than was thought; what is in use stays so."""
        self.capacity = capacity
        self.devices.has = numbered(capacity.milli_gpus)

    def fits(self, asked: Resources) -> bool:
        return (
            (not asked.milli_gpus or self.devices.choose(asked.milli_gpus) is not None)
            and self.memory_bytes + asked.memory_bytes <= self.capacity.memory_bytes
            and all(
                self.custom.get(name, 0) + amount <= self.capacity.custom.get(name, 0)
                for name, amount in asked.custom.items()
            )
        )

    def could_fit(self, asked: Resources) -> bool:
        """Whether it would be enough if nothing of it were in use."""
        return (
            asked.milli_gpus <= self.capacity.milli_gpus
            and asked.memory_bytes <= self.capacity.memory_bytes
            and all(amount <= self.capacity.custom.get(name, 0) for name, amount in asked.custom.items())
        )

    def take(self, asked: Resources) -> Shares:
        """Count what is asked for, which fits, as used; returns the shares of devices."""
        shares = self.devices.choose(asked.milli_gpus) or {}
        self.devices.take(shares)
        self._count(asked, 1)
        return shares

    def give_back(self, asked: Resources, shares: Shares) -> None:
        self.devices.take(shares, -1)
        self._count(asked, -1)

    def _count(self, asked: Resources, sign: int) -> None:
        self.memory_bytes += sign * asked.memory_bytes
        for name, amount in asked.custom.items():
            self.custom[name] = self.custom.get(name, 0) + sign * amount

    def free(self, milli_cpus: int) -> Resources:
        """What is left, with these cpus."""
        capacity = self.capacity
        return Resources(
            milli_cpus=max(0, milli_cpus),
            milli_gpus=max(0, capacity.milli_gpus - self.devices.used()),
            memory_bytes=max(0, capacity.memory_bytes - self.memory_bytes),
            custom={name: max(0, has - self.custom.get(name, 0)) for name, has in capacity.custom.items()},
        )


class Node:
    """What one node has and what of it is in use."""

    __slots__ = ("extra_milli", "extras", "idle", "lasting_milli", "name", "seats", "slots", "stock")

    def __init__(self, name: str, slots: int | None, capacity: Resources) -> None:
        self.name = name
        self.slots = slots
        self.stock = Stock(capacity)
        self.seats = 0  # engines placed on seats here,
        self.idle = 0  # of them idle
        self.extras = 0  # engines beside the seats
        self.extra_milli = 0
        self.lasting_milli = 0  # cpu of actors and placement groups

    def count_engine(self, rank: int, change: int) -> None:
        """An engine comes, or goes."""
        if rank < 0:
            self.extras += change
        else:
            self.seats += change

    def has_slot(self) -> bool:
        return self.slots is None or self.seats < self.slots

    def free_milli(self) -> int:
        """Cpu that is free. Below 0 when more runs than there are cpus, for a while."""
        return self.idle * SEAT_MILLI - self.extra_milli

    def fits(self, asked: Resources) -> bool:
        """Whether a task can run here now."""
        return self.has_cpus(asked.milli_cpus) and self.stock.fits(asked)

    def has_cpus(self, milli: int) -> bool:
        return not milli or milli <= self.free_milli()

    def could_fit(self, asked: Resources, seats: int) -> bool:
        """Whether a task could run here if all else had ended and the cluster had ``seats`` seats."""
        seats = seats if self.slots is None else min(seats, self.slots)
        return asked.milli_cpus <= seats * SEAT_MILLI and self.stock.could_fit(asked)

    def count_cpus(self, milli: int) -> None:
        """Count cpu as used beside the seats; a negative amount gives it back, or lends it."""
        self.extra_milli += milli


def often(free: Resources, asked: Resources) -> int:
    """How many times what is asked for fits into what is free."""
    pairs = [
        (free.milli_cpus, asked.milli_cpus),
        (free.milli_gpus, asked.milli_gpus),
        (free.memory_bytes, asked.memory_bytes),
        *((free.custom.get(name, 0), amount) for name, amount in asked.custom.items()),
    ]
    return min((has // needs for has, needs in pairs if needs), default=PLENTY)


def held_seats(nodes: Iterable[Node]) -> int:
    """How many seats are kept empty for what runs beside them, or is reserved."""
    return sum(-(-node.extra_milli // SEAT_MILLI) for node in nodes if node.extra_milli > 0)


def largest(nodes: Iterable[Node], seats: int) -> str:
    """For people: the most that one task could ever have."""
    texts = [
        describe(
            Resources(
                milli_cpus=SEAT_MILLI * (seats if node.slots is None else min(seats, node.slots)),
                milli_gpus=node.stock.capacity.milli_gpus,
                memory_bytes=node.stock.capacity.memory_bytes,
                custom=node.stock.capacity.custom,
            )
        )
        for node in nodes
    ]
    return " or ".join(dict.fromkeys(texts))
