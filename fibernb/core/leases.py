"""What an engine or an actor has of a node's resources, for as long as it runs something.

The room it comes from is a node, or a bundle of a placement group, which has got it from its node before.
"""

from __future__ import annotations

from typing import TypeAlias

from fibernb.core.devices import Shares
from fibernb.core.nodes import SEAT_MILLI, Node, Stock
from fibernb.model import Amount, Resources


class Bundle:
    """Resources that a placement group has reserved on one node. ``node`` None: not yet."""

    __slots__ = ("asked", "lease", "node", "stock", "used_milli")

    def __init__(self, asked: Resources) -> None:
        self.asked = asked
        self.node: Node | None = None
        self.lease: Lease | None = None
        self.stock = Stock(asked, {})
        self.used_milli = 0

    def place(self, node: Node) -> None:
        """Reserve it, on a node where it fits."""
        self.node = node
        self.lease = Lease(node, node, self.asked, lasting=True)
        self.stock = Stock(self.asked, self.lease.shares)
        self.used_milli = 0

    def vacate(self) -> None:
        """Give back what was reserved."""
        if self.lease is not None:
            self.lease.end()
        self.node = self.lease = None

    def fits(self, asked: Resources) -> bool:
        return self.node is not None and self.has_cpus(asked.milli_cpus) and self.stock.fits(asked)

    def could_fit(self, asked: Resources) -> bool:
        """Whether it would be enough if nothing of it were in use."""
        return asked.milli_cpus <= self.asked.milli_cpus and Stock(self.asked).could_fit(asked)

    def has_cpus(self, milli: int) -> bool:
        return not milli or milli <= self.free_milli()

    def free_milli(self) -> int:
        return self.asked.milli_cpus - self.used_milli

    def count_cpus(self, milli: int) -> None:
        self.used_milli += milli


Room: TypeAlias = Node | Bundle


class Lease:
    """Resources in use; they are taken when it is made. ``on_seat``: the seat itself stands for one of the cpus;
    ``lasting``: nobody knows for how long.
    """

    __slots__ = ("_lent", "asked", "lasting", "node", "on_seat", "room", "shares")

    def __init__(
        self, room: Room, node: Node, asked: Resources, *, on_seat: bool = False, lasting: bool = False
    ) -> None:
        self.room = room
        self.node = node
        self.asked = asked
        self.on_seat = on_seat
        self.lasting = lasting and room is node
        self.shares: Shares = room.stock.take(asked)
        self._lent: Amount = 0
        room.count_cpus(asked.milli_cpus)
        if on_seat:
            node.count_cpus(-SEAT_MILLI)
        if self.lasting:
            node.lasting_milli += asked.milli_cpus

    def lend(self, lent: bool) -> None:
        """Let others have its cpus for a while; or take them back."""
        wanted = self.asked.milli_cpus if lent else 0
        self.room.count_cpus(self._lent - wanted)
        self._lent = wanted

    def end(self) -> None:
        """Give everything back."""
        self.room.stock.give_back(self.asked, self.shares)
        self.room.count_cpus(self._lent - self.asked.milli_cpus)
        if self.on_seat:
            self.node.count_cpus(SEAT_MILLI)
        if self.lasting:
            self.node.lasting_milli -= self.asked.milli_cpus

    @property
    def gpus(self) -> tuple[int, ...]:
        return tuple(sorted(self.shares))
