"""When an engine may forget: bookkeeping per message, never per task.

An engine keeps each `Done` message until its results have reached their clients, so that a restarted hub can ask for
it again. The results of one message may go to several clients, in several `Deliver` messages; a receipt counts those
that are not acknowledged. As soon as the oldest receipts of an engine are settled, the engine is told to forget up to
there.
"""

from __future__ import annotations

from collections import deque

from fibernb.model import EngineId


class Receipt:
    """One `Done` message: how many things still hold on to its results."""

    __slots__ = ("holders", "receipts", "sequence")

    def __init__(self, receipts: Receipts, sequence: int) -> None:
        self.receipts = receipts
        self.sequence = sequence
        self.holders = 0

    def settle(self) -> bool:
        """One holder less; True when the engine may forget more than before."""
        self.holders -= 1
        return not self.holders and self.receipts.advance()


class Receipts:
    """The open receipts of one engine, oldest first."""

    __slots__ = ("engine", "forget", "last", "open", "told")

    def __init__(self, engine: EngineId) -> None:
        self.engine = engine
        self.open: deque[Receipt] = deque()
        self.last = 0  # highest sequence number that has come
        self.forget = 0  # settled up to here
        self.told = 0  # the engine knows that it may forget up to here

    def add(self, sequence: int) -> Receipt:
        self.last = sequence
        receipt = Receipt(self, sequence)
        self.open.append(receipt)
        return receipt

    def advance(self) -> bool:
        """Close what is settled; True when there was something."""
        before = self.forget
        while self.open and not self.open[0].holders:
            self.forget = self.open.popleft().sequence
        return self.forget != before
