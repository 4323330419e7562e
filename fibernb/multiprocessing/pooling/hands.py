"""What one worker of a pool has. Pure."""

from __future__ import annotations

from fibernb.multiprocessing.pooling.jobs import Job, Span
from fibernb.multiprocessing.pooling.pace import CHUNK_S


class Held:
    """A piece that a worker has.

    Parameters
    ----------
    span : its items.
    alone : it is one item, which may have killed a worker before.
    """

    __slots__ = ("alone", "item_s", "job", "number", "size_bytes", "span", "start")

    def __init__(self, number: int, job: Job, span: Span, alone: bool) -> None:
        self.number = number
        self.job = job
        self.span = span  # what of it has no answer yet
        self.start = span.start
        self.alone = alone
        self.item_s = job.pace.item_s  # as it was known when the piece was sent
        self.size_bytes = 0

    def may_have_begun(self, place: int) -> bool:
        """Whether more than its first item may have been running when its worker died.

        Parameters
        ----------
        place : how many pieces the worker had before this one.

        Items that take long are answered one by one: only the first without an answer can have begun.
        """
        return place == 0 if self.item_s is None else self.item_s < CHUNK_S


class Hand:
    """The pieces of one worker, in its order.

    ``quota`` is the number of items that it may still be given; None: any number.
    """

    def __init__(self, worker: int, quota: int | None, now: float) -> None:
        self.worker = worker
        self.quota = quota
        self.held: dict[int, Held] = {}
        self.items = 0  # without an answer
        self.heard = now  # when it last said or was given something
        self.is_recalled = False  # it was asked to give back
        self.is_leaving = False
        self.waiting_bytes = 0  # of pieces that it has perhaps not read
        self._load_s = 0.0
        self._unknown = 0  # items of which it is not known how long they take

    @property
    def load_s(self) -> float | None:
        """Seconds of work that it has; None when that cannot be told."""
        return None if self._unknown else self._load_s

    def takes(self) -> bool:
        """Whether it may be given more."""
        return not self.is_leaving and not self.is_recalled and self.quota != 0

    def wants(self) -> bool:
        """Whether it will soon be without work."""
        load_s = self.load_s
        return not self.held or (load_s is not None and (load_s < CHUNK_S or self.items == 1))

    def has(self, job: Job) -> bool:
        """Whether it has items of that job."""
        return any(held.job is job for held in self.held.values())

    def has_spare(self) -> bool:
        """Whether it has items that it has perhaps not begun, and was not asked for them."""
        return self.items > 1 and not self.is_recalled

    def is_tested(self) -> bool:
        """Whether it runs an item that may have killed a worker before."""
        return any(held.alone for held in self.held.values())

    def is_spent(self) -> bool:
        """Whether it is done and will be given no more."""
        return not self.held and (self.is_leaving or self.quota == 0)

    def take(self, held: Held) -> None:
        """It is sent a piece."""
        self.held[held.number] = held
        self._count(held, held.span.size)
        self._spend(held.span.size)

    def note_size(self, held: Held, size_bytes: int) -> None:
        """The piece, as it is sent, is so large."""
        held.size_bytes = size_bytes
        self.waiting_bytes += size_bytes

    def advance(self, held: Held, start: int) -> None:
        """It has answered for the items of a piece before ``start``."""
        self._count(held, held.span.start - start)
        held.span = Span(start, held.span.stop)
        self._discard_if_done(held)

    def cut(self, held: Held, stop: int) -> None:
        """The items of a piece from ``stop`` on are no longer there."""
        self._count(held, stop - held.span.stop)
        self._spend(stop - held.span.stop)
        held.span = Span(held.span.start, stop)
        self._discard_if_done(held)

    def _count(self, held: Held, change: int) -> None:
        self.items += change
        if held.item_s is None:
            self._unknown += change
        else:
            self._load_s += held.item_s * change

    def _spend(self, items: int) -> None:
        if self.quota is not None:
            self.quota -= items

    def _discard_if_done(self, held: Held) -> None:
        if held.span.size == 0:
            del self.held[held.number]
            self.waiting_bytes -= held.size_bytes
