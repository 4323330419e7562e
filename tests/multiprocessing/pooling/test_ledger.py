"""The ledger by itself, and in a simulation: workers that answer, give back and die in any order."""

from __future__ import annotations

import random
from collections import Counter, deque

import pytest

from fibernb.multiprocessing.pooling.hands import Held
from fibernb.multiprocessing.pooling.jobs import Fed, Items, Job, Listed, Span
from fibernb.multiprocessing.pooling.ledger import BUSY_BYTES, STRAGGLE_S, Ledger
from fibernb.multiprocessing.pooling.messages import Kept, Shape
from fibernb.multiprocessing.pooling.pace import AHEAD_S, Pace


def job_of(items: int | Items, item_s: float | None = None, number: int = 1) -> Job:
    pace = Pace()
    if item_s is not None:
        pace.note(1, item_s)
    listed = Listed(range(items)) if isinstance(items, int) else items
    return Job(number=number, function=1, shape=Shape.ONE, items=listed, pace=pace)


def ledger_of(workers: int, *, max_retries: int = 2, quota: int | None = None) -> Ledger:
    ledger = Ledger(max_retries)
    for worker in range(1, workers + 1):
        ledger.join(worker, quota, 0.0)
    return ledger


def deal(ledger: Ledger) -> dict[int, list[Held]]:
    """Fill every worker that is idle."""
    dealt: dict[int, list[Held]] = {}
    while (worker := ledger.next_idle()) is not None:
        dealt[worker] = ledger.fill(worker)
    return dealt


def spans(held: list[Held]) -> list[tuple[int, int]]:
    return [(piece.span.start, piece.span.stop) for piece in held]


# ---- what is sent -------------------------------------------------------------------------------------------


def test_of_an_unknown_function_every_worker_gets_one_item() -> None:
    ledger = ledger_of(3)
    ledger.add(job_of(100))
    assert {worker: spans(held) for worker, held in deal(ledger).items()} == {1: [(0, 1)], 2: [(1, 2)], 3: [(2, 3)]}


def test_tiny_items_travel_in_hundreds() -> None:
    ledger = ledger_of(2)
    ledger.add(job_of(1_000_000, 5e-6))
    (piece,) = ledger.fill(1)
    assert piece.span.size > 500


def test_few_items_are_shared_by_all_workers() -> None:
    ledger = ledger_of(4)
    ledger.add(job_of(8, 5e-3))
    assert [len(held) for held in deal(ledger).values()] == [1, 1, 1, 1]


def test_few_tiny_items_are_not_divided() -> None:
    ledger = ledger_of(4)
    ledger.add(job_of(150, 5e-6))
    assert [spans(held) for held in deal(ledger).values()] == [[(0, 100)], [(100, 150)]]


def test_short_items_are_sent_ahead_long_ones_not() -> None:
    for item_s, ahead in ((AHEAD_S / 2, 2), (AHEAD_S * 2, 1)):
        ledger = ledger_of(1)
        ledger.add(job_of(10, item_s))
        assert len(ledger.fill(1)) == ahead


def test_nothing_is_sent_ahead_while_a_worker_is_idle() -> None:
    ledger = ledger_of(2)
    ledger.add(job_of(2, AHEAD_S / 2))
    assert [spans(held) for held in deal(ledger).values()] == [[(0, 1)], [(1, 2)]]


def test_calls_of_one_function_travel_together() -> None:
    ledger = ledger_of(1)
    for number in range(20):
        ledger.add(job_of(1, 1e-3, number))
    assert len(ledger.fill(1)) == 8


def test_a_worker_wants_more_before_it_has_nothing() -> None:
    ledger = ledger_of(1)
    ledger.add(job_of(100, 1e-3))
    ledger.fill(1)
    hand = ledger.hands[1]
    assert not hand.wants()
    for number in list(hand.held):
        ledger.answer(1, number, hand.held[number].span.size - 1, 1e-3, 0.0)
    assert hand.wants()


def test_a_large_piece_waits_for_a_worker_that_has_nothing() -> None:
    ledger = ledger_of(1)
    ledger.add(job_of(4, AHEAD_S / 2))
    first, second = ledger.fill(1)
    assert ledger.fits(1, first, 10 * BUSY_BYTES)
    assert not ledger.fits(1, second, 10 * BUSY_BYTES)
    ledger.unsend(1, second)
    assert ledger.waiting() == 3
    assert ledger.fill(1) == [], "large items are not sent ahead from now on"
    ledger.answer(1, first.number, 1, 0.01, 0.0)
    assert spans(ledger.fill(1)) == [(1, 2)]


def test_items_that_cannot_be_sent_are_left_out() -> None:
    ledger = ledger_of(1)
    ledger.add(job_of(6, 0.5e-3))
    (piece,) = ledger.fill(1)[:1]
    assert piece.span == (0, 3)
    ledger.unsend(1, piece, {1})
    sent = [span for held in (ledger.fill(1), ledger.fill(1)) for span in spans(held)]
    assert (1, 2) not in sent
    assert (0, 1) in sent


def test_a_quota_is_never_exceeded() -> None:
    ledger = ledger_of(1, quota=3)
    ledger.add(job_of(1000, 1e-6))
    (piece,) = ledger.fill(1)
    assert piece.span == (0, 3)
    assert not ledger.hands[1].is_spent()
    ledger.answer(1, piece.number, 3, 1e-6, 0.0)
    assert ledger.hands[1].is_spent()
    assert ledger.next_idle() is None


def test_a_worker_that_leaves_gets_no_more() -> None:
    ledger = ledger_of(1)
    ledger.retire(1)
    ledger.add(job_of(3))
    assert ledger.next_idle() is None
    assert ledger.fill(1) == []


# ---- taking back --------------------------------------------------------------------------------------------


def test_what_waits_behind_a_long_item_goes_to_who_is_idle() -> None:
    ledger = ledger_of(2)
    ledger.add(job_of(12, 1e-3))
    dealt = deal(ledger)
    for held in dealt[2]:
        ledger.answer(2, held.number, held.span.size, 1e-3, 0.0)
    while len(held_by_2 := ledger.fill(2)):
        for held in held_by_2:
            ledger.answer(2, held.number, held.span.size, 1e-3, 0.0)
    assert ledger.is_uneven()
    assert ledger.stragglers(STRAGGLE_S / 2) == []
    assert ledger.stragglers(STRAGGLE_S) == [1]
    assert ledger.stragglers(STRAGGLE_S) == [], "once is enough"
    assert ledger.fill(1) == []
    first = next(iter(ledger.hands[1].held.values()))
    before = first.span
    ledger.give_back(1, [Kept(piece=first.number, count=1)], STRAGGLE_S)
    assert first.span == (before.start, before.start + 1)
    assert spans(ledger.fill(2))[0][0] == before.start + 1


def test_nothing_is_taken_back_while_something_waits() -> None:
    ledger = ledger_of(1)
    ledger.add(job_of(100, 1e-3))
    ledger.fill(1)
    ledger.join(2, None, 0.0)
    assert ledger.is_uneven()
    assert ledger.stragglers(1.0) == []


# ---- deaths -------------------------------------------------------------------------------------------------


def test_what_a_dead_worker_held_runs_again_one_by_one() -> None:
    ledger = ledger_of(1)
    ledger.add(job_of(5, 0.5e-3))
    (piece, *_) = ledger.fill(1)
    ledger.answer(1, piece.number, 1, 0.5e-3, 0.0)
    assert ledger.lose(1) == []
    ledger.join(2, None, 0.0)
    assert spans(ledger.fill(2)) == [(1, 2)]


def test_long_items_that_had_not_begun_are_not_suspected() -> None:
    ledger = ledger_of(1)
    job = job_of(3, AHEAD_S / 2)
    ledger.add(job)
    ledger.fill(1)
    ledger.lose(1)
    ledger.join(2, None, 0.0)
    assert spans(ledger.fill(2)) == [(0, 1)]
    assert not job.has_suspects()


def test_an_item_that_kills_its_workers_fails() -> None:
    ledger = Ledger(max_retries=2)
    ledger.add(job_of(1))
    failures = []
    for worker in (1, 2, 3):
        ledger.join(worker, None, 0.0)
        assert len(ledger.fill(worker)) == 1
        failures.append(ledger.lose(worker))
    assert failures[:2] == [[], []]
    assert [(failure.item, failure.deaths) for failure in failures[2]] == [(0, 3)]
    assert ledger.waiting() == 0


def test_an_unknown_worker_may_be_lost() -> None:
    assert Ledger(0).lose(7) == []


def test_answers_of_a_dead_worker_do_not_count() -> None:
    ledger = ledger_of(1)
    ledger.add(job_of(1))
    (piece,) = ledger.fill(1)
    ledger.lose(1)
    assert ledger.answer(1, piece.number, 1, 1.0, 0.0) is None
    ledger.give_back(1, [Kept(piece=piece.number, count=0)], 0.0)


# ---- jobs that nobody wants ---------------------------------------------------------------------------------


def test_of_a_dropped_job_nothing_is_sent_or_told() -> None:
    ledger = ledger_of(2)
    job, other = job_of(100, number=1), job_of(1, number=2)
    ledger.add(job)
    ledger.add(other)
    (piece,) = ledger.fill(1)
    assert ledger.drop(job) == [1]
    assert ledger.holds_dropped(1)
    (held,) = ledger.fill(2)
    assert held.job is other
    assert ledger.answer(1, piece.number, 1, 1.0, 0.0) is None
    assert not ledger.holds_dropped(1)
    assert ledger.waiting() == 0


# ---- everything together ------------------------------------------------------------------------------------


class Simulated:
    """A worker that does what it is told, some time."""

    def __init__(self) -> None:
        self.pieces: deque[list[int]] = deque()  # number, items that it has, items that it has answered


class Simulation:
    """A pool in which anything happens at any time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ledger = Ledger(max_retries=2)
        self.workers: dict[int, Simulated] = {}
        self.fed = Fed()
        self.jobs = [job_of(300, number=1), job_of(self.fed, number=2), job_of(40, 0.01, number=3)]
        self.poison = {(1, 17), (3, 5)}
        self.seen: Counter[tuple[int, int]] = Counter()
        self.failed: list[tuple[int, int]] = []
        self.number = 0
        self.now = 0.0

    def run(self) -> None:
        for job in self.jobs:
            self.ledger.add(job)
        steps = [self.feed, self.hire, self.answer, self.answer, self.answer, self.recall, self.kill]
        for _ in range(2000):
            self.now += 0.001
            self.random.choice(steps)()
            self.deal()
        while self.fed.reach() < 100 or self.ledger.waiting() or any(w.pieces for w in self.workers.values()):
            self.feed()
            self.hire()
            self.answer()
            self.deal()

    def deal(self) -> None:
        while (worker := self.ledger.next_idle()) is not None:
            self.fill(worker)

    def fill(self, worker: int) -> None:
        for held in self.ledger.fill(worker):
            self.workers[worker].pieces.append([held.number, held.span.size, 0])

    def feed(self) -> None:
        if self.fed.reach() < 100:
            self.fed.add(None)
            self.ledger.add(self.jobs[1])

    def hire(self) -> None:
        if len(self.workers) < 4:
            self.number += 1
            self.workers[self.number] = Simulated()
            self.ledger.join(self.number, self.random.choice([None, 50]), self.now)

    def answer(self) -> None:
        worker = self.choose()
        if worker is None:
            return
        piece = self.workers[worker].pieces[0]
        held = self.ledger.hands[worker].held[piece[0]]
        if (held.job.number, held.span.start) in self.poison:
            self.die(worker)
            return
        found = self.ledger.answer(worker, piece[0], 1, self.random.choice([1e-5, 1e-3, 0.02]), self.now)
        assert found is not None
        self.seen[found[0].number, found[1].start] += 1
        piece[2] += 1
        if piece[1] == piece[2]:
            self.workers[worker].pieces.popleft()
        if self.ledger.hands[worker].is_spent():
            self.ledger.lose(worker)
            del self.workers[worker]
        elif self.ledger.hands[worker].wants():
            self.fill(worker)

    def recall(self) -> None:
        for worker in self.ledger.stragglers(self.now):
            kept = []
            for piece in self.workers[worker].pieces:
                piece[1] = self.random.randint(piece[2], piece[1])
                kept.append(Kept(piece=piece[0], count=piece[1]))
            self.workers[worker].pieces = deque(p for p in self.workers[worker].pieces if p[1] > p[2])
            self.ledger.give_back(worker, kept, self.now)

    def kill(self) -> None:
        worker = self.choose()
        if worker is not None and self.random.random() < 0.1:
            self.die(worker)

    def die(self, worker: int) -> None:
        del self.workers[worker]
        self.failed += [(failure.job.number, failure.item) for failure in self.ledger.lose(worker)]

    def choose(self) -> int | None:
        busy = [number for number, worker in self.workers.items() if worker.pieces]
        return self.random.choice(busy) if busy else None


@pytest.mark.parametrize("seed", range(40))
def test_every_item_is_answered_once_whatever_happens(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.run()
    everything = {(1, i) for i in range(300)} | {(2, i) for i in range(100)} | {(3, i) for i in range(40)}
    assert set(simulation.seen.values()) == {1}
    assert not set(simulation.failed) & set(simulation.seen)
    assert set(simulation.seen) | set(simulation.failed) == everything
    assert simulation.poison <= set(simulation.failed)
    assert simulation.ledger.waiting() == 0


def test_a_span_has_a_size() -> None:
    assert Span(2, 5).size == 3
