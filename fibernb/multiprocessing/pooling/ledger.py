"""Who holds what: which items go to which worker, what is taken back, what runs again. Pure.

The rules:

- A worker that has nothing gets the next items at once. How many follows the pace of their function; of few that are
  left, every worker gets a share.
- While a worker runs short items it is sent more ahead, so that it never waits for the way there and back.
- When a worker is idle, what waits behind a long item elsewhere is taken back for it.
- When a worker dies, its items run again. Those that may have been running travel alone then, so that the one that
  kills workers is found; that one's answer, after ``max_retries`` more attempts, is a failure.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from fibernb.multiprocessing.pooling.hands import Hand, Held
from fibernb.multiprocessing.pooling.jobs import Job, Span
from fibernb.multiprocessing.pooling.messages import Kept
from fibernb.multiprocessing.pooling.pace import CHUNK_S

STRAGGLE_S: Final = 0.005  # what waits at a worker that was not heard of for so long is taken back
BUSY_BYTES: Final = 2**15  # more is not sent to a busy worker: it does not read, so the connection could fill up
BUSY_PIECES: Final = 64
LEAST_S: Final = 0.0005  # work that is not divided any more: a message costs half as much


class Failure(NamedTuple):
    """An item whose worker died too often."""

    job: Job
    item: int  # its place in the job
    deaths: int


class Ledger:
    """The bookkeeping of a pool.

    Parameters
    ----------
    max_retries : how often an item runs again after a worker died with it.
    """

    def __init__(self, max_retries: int) -> None:
        self.hands: dict[int, Hand] = {}
        self._max_retries = max_retries
        self._queue: deque[Job] = deque()  # with something to send, or dropped
        self._idle: dict[int, None] = {}  # in the order in which they became so
        self._spare: set[int] = set()  # workers that have something that they have perhaps not begun
        self._numbers: Iterator[int] = itertools.count(1)

    # ---- work to send -------------------------------------------------------------------------------------

    def add(self, job: Job, *, first: bool = False) -> None:
        """A job has something to send."""
        if job.is_queued or not job.waiting():
            return
        job.is_queued = True
        if first:
            self._queue.appendleft(job)
        else:
            self._queue.append(job)

    def waiting(self) -> int:
        """How many items wait to be sent, at least."""
        head = self._head()
        return 0 if head is None else len(self._queue) - 1 + head.waiting()

    def has_waiting(self) -> bool:
        """Whether something waits to be sent."""
        return self._head() is not None

    def next_idle(self) -> int | None:
        """A worker that has nothing while something waits for it."""
        return next(iter(self._idle), None) if self._head() is not None else None

    def fill(self, worker: int) -> list[Held]:
        """What this worker is to be sent now."""
        hand = self.hands.get(worker)
        if hand is None:
            return []
        taken: list[Held] = []
        share = self._share(hand)
        while share > 0 and hand.takes() and (job := self._head()) is not None:
            most = min(share, self._most(hand, job))
            if most < 1:
                break
            alone = job.has_suspects()
            held = Held(next(self._numbers), job, job.take(most), alone)
            hand.take(held)
            taken.append(held)
            share -= held.span.size
        self._note(hand)
        return taken

    def unsend(self, worker: int, held: Held, unfit: Collection[int] = ()) -> None:
        """This piece was not sent: it stays here, but for the items that are unfit to be sent at all."""
        hand = self.hands.get(worker)
        if hand is None or held.number not in hand.held:
            return
        span = held.span
        hand.cut(held, span.start)
        if not unfit:
            self._take_back(held, span)
        for index in reversed(range(*span) if unfit else ()):
            if index not in unfit:
                self._take_back(held, Span(index, index + 1))
        self._note(hand)

    def fits(self, worker: int, held: Held, size_bytes: int) -> bool:
        """Whether a piece of this size can be sent to that worker now, which may be busy."""
        hand = self.hands.get(worker)
        if hand is None or held.number not in hand.held:
            return False
        held.job.pace.note_size(held.span.size, size_bytes)
        if size_bytes > BUSY_BYTES and next(iter(hand.held)) != held.number:
            return False
        hand.note_size(held, size_bytes)
        return True

    # ---- what workers say ---------------------------------------------------------------------------------

    def join(self, worker: int, quota: int | None, now: float) -> None:
        """A worker is ready for work, and may be given ``quota`` items in all (None: any number)."""
        hand = self.hands[worker] = Hand(worker, quota, now)
        self._note(hand)

    def answer(self, worker: int, piece: int, count: int, seconds: float, now: float) -> tuple[Job, Span] | None:
        """A worker has answered for the next items of a piece: which they are, unless nobody wants to know."""
        hand = self.hands.get(worker)
        held = None if hand is None else hand.held.get(piece)
        if hand is None or held is None:
            return None
        hand.heard = now
        done = Span(held.span.start, held.span.start + count)
        hand.advance(held, done.stop)
        held.job.pace.note(count, seconds)
        held.job.items.drop(done)
        self._note(hand)
        return None if held.job.is_dropped else (held.job, done)

    def give_back(self, worker: int, kept: Iterable[Kept], now: float) -> None:
        """A worker gives back what it has not begun of these pieces."""
        hand = self.hands.get(worker)
        if hand is None:
            return
        hand.heard, hand.is_recalled = now, False
        found = [(hand.held[piece.piece], piece.count) for piece in kept if piece.piece in hand.held]
        for held, count in reversed(found):
            rest = Span(held.start + count, held.span.stop)
            hand.cut(held, rest.start)
            self._take_back(held, rest)
        self._note(hand)

    def lose(self, worker: int) -> list[Failure]:
        """A worker has gone. What it held runs again, but for what has killed too many: that is returned."""
        hand = self.hands.pop(worker, None)
        self._idle.pop(worker, None)
        self._spare.discard(worker)
        if hand is None:
            return []
        failures: list[Failure] = []
        for number, held in enumerate(hand.held.values()):
            span = held.span
            if number == 0:
                failures += self._blame(held)
                span = Span(span.start + 1, span.stop)
            if held.alone or held.may_have_begun(number):
                held.job.suspect(span)
            else:
                held.job.give_back(span)
        for held in reversed(list(hand.held.values())):
            self.add(held.job, first=True)
        return failures

    # ---- decisions ----------------------------------------------------------------------------------------

    def stragglers(self, now: float) -> list[int]:
        """Workers to ask for what they have not begun, since others are idle."""
        if not self.is_uneven() or self.has_waiting():
            return []
        spare = map(self.hands.__getitem__, self._spare)
        slow = [hand for hand in spare if now - hand.heard >= STRAGGLE_S]
        chosen = heapq.nlargest(len(self._idle), slow, key=lambda hand: hand.items)
        for hand in chosen:
            hand.is_recalled = True
            self._note(hand)
        return [hand.worker for hand in chosen]

    def is_uneven(self) -> bool:
        """Whether a worker has nothing while another has something that it has perhaps not begun."""
        return bool(self._idle and self._spare)

    def drop(self, job: Job) -> list[int]:
        """Nobody wants this job any more: the workers that have something of it."""
        job.is_dropped = True
        return [hand.worker for hand in self.hands.values() if hand.has(job)]

    def retire(self, worker: int) -> None:
        """This worker is given no more."""
        if worker in self.hands:
            self.hands[worker].is_leaving = True
            self._note(self.hands[worker])

    def holds_dropped(self, worker: int) -> bool:
        """Whether this worker has something that nobody wants."""
        hand = self.hands.get(worker)
        return hand is not None and any(held.job.is_dropped for held in hand.held.values())

    def head_s(self) -> float | None:
        """How long an item takes of those that wait, in seconds, if that is known."""
        head = self._head()
        return None if head is None else head.pace.item_s

    def busy_count(self) -> int:
        """How many workers have something."""
        return sum(bool(hand.held) for hand in self.hands.values())

    # ---- inside -------------------------------------------------------------------------------------------

    def _head(self) -> Job | None:
        """The first job that has something to send."""
        while self._queue:
            job = self._queue[0]
            if job.waiting():
                return job
            job.is_queued = False
            self._queue.popleft()
        return None

    def _share(self, hand: Hand) -> int:
        """How many of the items that wait the worker can be given now, so that there are some for the others."""
        share = self.waiting() // (2 * len(self.hands))
        if hand.held and self._others_idle(hand):
            return share
        head = self._head()
        return max(1, share, 0 if head is None else head.pace.fitting(LEAST_S))

    def _most(self, hand: Hand, job: Job) -> int:
        """How many items of this job the worker can be given now."""
        fitting = self._ahead(hand, job) if hand.held else max(1, job.pace.fitting(2 * CHUNK_S))
        return fitting if hand.quota is None else min(fitting, hand.quota)

    def _ahead(self, hand: Hand, job: Job) -> int:
        """How many it can be given behind what it has."""
        full = len(hand.held) >= BUSY_PIECES or max(hand.waiting_bytes, job.pace.item_bytes) > BUSY_BYTES
        if full or hand.load_s is None or hand.is_tested() or job.has_suspects() or not job.pace.is_short():
            return 0
        return max(job.pace.fitting(2 * CHUNK_S - hand.load_s), int(hand.items == 1))

    def _others_idle(self, hand: Hand) -> bool:
        return len(self._idle) > (hand.worker in self._idle)

    def _note(self, hand: Hand) -> None:
        """Something has changed at this worker."""
        if hand.has_spare():
            self._spare.add(hand.worker)
        else:
            self._spare.discard(hand.worker)
        if hand.held or not hand.takes():
            self._idle.pop(hand.worker, None)
        else:
            self._idle[hand.worker] = None

    def _take_back(self, held: Held, span: Span) -> None:
        if held.alone:
            held.job.suspect(span)
        else:
            held.job.give_back(span)
        self.add(held.job, first=True)

    def _blame(self, held: Held) -> list[Failure]:
        """The first item without an answer was running, as far as one can tell."""
        index = held.span.start
        deaths = held.job.note_death(index)
        if deaths <= self._max_retries or held.job.is_dropped:
            held.job.suspect(Span(index, index + 1))
            return []
        held.job.items.drop(Span(index, index + 1))
        return [Failure(held.job, index, deaths)]
