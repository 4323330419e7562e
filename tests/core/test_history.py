from fibernb.core.history import History, Span
from fibernb.core.messages import Done
from fibernb.core.seats import Engine
from fibernb.model import Result

ENGINE = Engine(7, 3, "here")
ENGINE.actor = 99


def noted(*ids: int, failed: tuple[int, ...] = ()) -> Span:
    history = History(2)
    done = Done(sequence=1, results=[Result(id_, b"") for id_ in ids], began_s=1.0, run_s=0.5)
    history.add(ENGINE, "f", done, done.results, list(failed))
    return next(history.newest_first())


def test_ids_in_a_row_are_a_range() -> None:
    assert noted(4, 5, 6).ids == range(4, 7)
    assert noted(4, 6, 5).ids == (4, 6, 5)
    assert noted(4).ids == (4,)
    assert noted(4, 5, failed=(5,)).failed == (5,)


def test_who_ran_it_and_when() -> None:
    span = noted(1)
    assert (span.engine, span.rank, span.function, span.actor) == (7, 3, "f", 99)
    assert (span.began_s, span.run_s, span.ended_s) == (1.0, 0.5, 1.5)


def test_the_oldest_go_first() -> None:
    history = History(2)
    for number in range(3):
        done = Done(sequence=1, results=[Result(number, b"")])
        history.add(ENGINE, "f", done, done.results, [])
    assert [list(span.ids) for span in history.newest_first()] == [[2], [1]]
    assert history.total == 3
