"""Sends workers what the ledger has decided on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from fibernb.multiprocessing.pooling import packing
from fibernb.multiprocessing.pooling.codes import Codes
from fibernb.multiprocessing.pooling.hands import Held
from fibernb.multiprocessing.pooling.jobs import Job, Span
from fibernb.multiprocessing.pooling.ledger import Ledger
from fibernb.multiprocessing.pooling.members import Member
from fibernb.multiprocessing.pooling.messages import Piece


class Order(NamedTuple):
    """Pieces for a worker."""

    member: Member
    pieces: list[Held]


class Sender:
    """Pickles and sends, outside of the lock: from the threads that call, and from the one that serves.

    Parameters
    ----------
    members : those that the ledger knows, by number.
    lock : of the ledger.
    fail : told of items that cannot be pickled.
    """

    def __init__(
        self,
        ledger: Ledger,
        members: Mapping[int, Member],
        lock: threading.RLock,
        codes: Codes,
        fail: Callable[[Job, Iterable[tuple[int, BaseException]]], object],
    ) -> None:
        self._ledger = ledger
        self._members = members
        self._lock = lock
        self._codes = codes
        self._fail = fail

    def orders(self) -> list[Order]:
        """What is to be sent to workers that have nothing. Under the lock."""
        orders: list[Order] = []
        while (worker := self._ledger.next_idle()) is not None:
            orders.append(Order(self._members[worker], self._ledger.fill(worker)))
        return orders

    def send(self, orders: list[Order]) -> None:
        """Send it."""
        for member, held in orders:
            pieces = [piece for one in held if (piece := self._piece(member, one)) is not None]
            if pieces:
                member.send_work(pieces, self._codes.pickle)
            if len(pieces) < len(held):  # some stay here; the worker may have done the others by now
                with self._lock:
                    more = self.orders()
                self.send(more)

    def _piece(self, member: Member, held: Held) -> Piece | None:
        job, span = held.job, held.span
        try:
            blobs = job.packed or packing.pack(job.items.get(span))
        except Exception:  # noqa: BLE001  whatever the pickling of a user's object raises
            self._refuse(member, held)
            return None
        with self._lock:
            if not self._ledger.fits(member.number, held, blobs.size_bytes):
                self._ledger.unsend(member.number, held)
                return None
        return Piece(
            number=held.number,
            job=job.number,
            function=job.function,
            shape=job.shape,
            count=span.size,
            items=blobs,
            goes_on=job.pace.is_short(),
        )

    def _refuse(self, member: Member, held: Held) -> None:
        """Some items of the piece cannot be pickled: their errors are told, the others are sent one by one."""
        errors: dict[int, BaseException] = {}
        for index in range(*held.span):
            try:
                packing.pack(held.job.items.get(Span(index, index + 1)))
            except Exception as error:  # noqa: BLE001  as above
                errors[index] = error
        with self._lock:
            self._ledger.unsend(member.number, held, errors)
        self._fail(held.job, errors.items())
