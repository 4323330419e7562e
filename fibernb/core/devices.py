"""Gpus by number. A task that asks for whole ones has them for itself; fractions share one.

A fraction goes to the device that has the least room left for it, so that whole ones stay free. Amounts are in
thousandths.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from fibernb.model import Amount

WHOLE: Final = 1000
Shares: TypeAlias = dict[int, Amount]  # of each device, by its number


def numbered(milli_gpus: Amount) -> Shares:
    """The devices of a node that has so many. A part of one that is left over is a device, too."""
    whole, part = divmod(milli_gpus, WHOLE)
    shares = dict.fromkeys(range(whole), WHOLE)
    if part:
        shares[whole] = part
    return shares


class Devices:
    """What there is of each device, and what of it is in use."""

    __slots__ = ("_used", "has")

    def __init__(self, has: Shares) -> None:
        self.has = has
        self._used: Shares = {}

    def used(self) -> Amount:
        return sum(self._used.values())

    def choose(self, milli: Amount) -> Shares | None:
        """Devices for a task that asks for so much; None while they are not free."""
        free = {number: has - self._used.get(number, 0) for number, has in self.has.items()}
        whole, part = divmod(milli, WHOLE)
        empty = [number for number in sorted(free) if free[number] >= WHOLE]
        if len(empty) < whole:
            return None
        shares = dict.fromkeys(empty[:whole], WHOLE)
        if part:
            rooms = [(room, number) for number, room in free.items() if room >= part and number not in shares]
            if not rooms:
                return None
            shares[min(rooms)[1]] = part
        return shares

    def take(self, shares: Shares, sign: int = 1) -> None:
        """Count shares as used; ``sign`` -1 gives them back."""
        for number, amount in shares.items():
            self._used[number] = self._used.get(number, 0) + sign * amount
