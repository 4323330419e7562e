"""File descriptors that processes leave with the store for others to take."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable

from fibernb.model import COUNTER_BITS, Struct
from fibernb.store.orders import LinkId


class _Deposit(Struct, frozen=True, kw_only=True):
    fd: int
    lasting_for: LinkId | None  # handed out again and again while this link lives; None: once


class Deposits:
    """What has been deposited, and by whom.

    Parameters
    ----------
    generation : of the store; makes its tickets different from those of other stores of the host.
    """

    def __init__(self, generation: int) -> None:
        self._last = generation << COUNTER_BITS
        self._deposits: dict[int, _Deposit] = {}
        self._latest: dict[LinkId, tuple[int, int]] = {}  # request and ticket of each link's latest deposit
        self._lasting: dict[LinkId, set[int]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._deposits)

    def add(self, link: LinkId, request: int, fd: int, lasting: bool) -> int:
        """Take a descriptor, which is closed when it has been handed out; the ticket that it is redeemed with."""
        self._last += 1
        self._deposits[self._last] = _Deposit(fd=fd, lasting_for=link if lasting else None)
        self._latest[link] = request, self._last
        if lasting:
            self._lasting[link].add(self._last)
        return self._last

    def find(self, ticket: int) -> int | None:
        """The descriptor of a ticket, to be duplicated; None if it has been handed out, or never was here."""
        deposit = self._deposits.get(ticket)
        return None if deposit is None else deposit.fd

    def handed_out(self, ticket: int) -> None:
        """Somebody has the descriptor of this ticket now."""
        if self._deposits[ticket].lasting_for is None:
            self.reclaim([ticket])

    def reclaim(self, tickets: Iterable[int]) -> None:
        for ticket in tickets:
            deposit = self._deposits.pop(ticket, None)
            if deposit is not None:
                os.close(deposit.fd)
                if deposit.lasting_for is not None:
                    self._lasting[deposit.lasting_for].discard(ticket)

    def withdraw(self, link: LinkId, request: int) -> None:
        """Undo a request of a link, if it was its latest deposit."""
        last_request, ticket = self._latest.get(link, (0, 0))
        if last_request == request:
            self.reclaim([ticket])

    def detach(self, link: LinkId) -> None:
        """A link is gone, and with it its lasting deposits. What is to be taken once stays for its taker."""
        self._latest.pop(link, None)
        self.reclaim(list(self._lasting[link]))
        del self._lasting[link]
