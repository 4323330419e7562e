from __future__ import annotations

from fibernb.multiprocessing.pooling.jobs import Fed, Items, Job, Listed, Span
from fibernb.multiprocessing.pooling.messages import Shape
from fibernb.multiprocessing.pooling.pace import Pace


def job_of(items: Items) -> Job:
    return Job(number=1, function=1, shape=Shape.ONE, items=items, pace=Pace())


def test_items_are_taken_in_order() -> None:
    job = job_of(Listed(range(5)))
    assert [job.take(2), job.take(2), job.take(2)] == [(0, 2), (2, 4), (4, 5)]
    assert job.waiting() == 0


def test_what_comes_back_goes_first() -> None:
    job = job_of(Listed(range(10)))
    job.take(6)
    job.give_back(Span(4, 6))
    job.give_back(Span(1, 3))
    assert job.waiting() == 8
    assert [job.take(9), job.take(1), job.take(9), job.take(9)] == [(1, 3), (4, 5), (5, 6), (6, 10)]


def test_giving_back_nothing_is_nothing() -> None:
    job = job_of(Listed(range(1)))
    job.give_back(Span(0, 0))
    assert job.waiting() == 1


def test_suspects_travel_alone_and_first() -> None:
    job = job_of(Listed(range(4)))
    job.take(2)
    job.suspect(Span(0, 2))
    assert job.has_suspects()
    assert [job.take(9), job.take(9)] == [(0, 1), (1, 2)]
    assert not job.has_suspects()
    assert job.take(9) == (2, 4)


def test_deaths_are_counted_by_item() -> None:
    job = job_of(Listed(range(4)))
    assert [job.note_death(1), job.note_death(1), job.note_death(2)] == [1, 2, 1]


def test_of_a_dropped_job_nothing_waits() -> None:
    job = job_of(Listed(range(4)))
    job.is_dropped = True
    assert job.waiting() == 0


def test_fed_items_are_there_until_they_are_done() -> None:
    items = Fed()
    job = job_of(items)
    assert job.waiting() == 0
    for item in "abc":
        items.add(item)
    assert job.waiting() == 3
    assert items.get(Span(1, 3)) == ["b", "c"]
    items.drop(Span(0, 2))
    assert items.get(Span(2, 3)) == ["c"]
    assert items.reach() == 3
