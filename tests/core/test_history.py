from fibernb.core.actors import Actor
from fibernb.core.functions import Function
from fibernb.core.history import Ending, History, PastActor, Span, Wait
from fibernb.core.messages import CreateActor, Done, Ran
from fibernb.core.seats import Engine, Pause
from fibernb.core.states import TaskState
from fibernb.model import ActorOptions, Result

ENGINE = Engine(7, 3, "here")
ENGINE.actor = 99


FUNCTION = Function(b"", b"", "f")


def add(history: History, *ids: int, failed: tuple[int, ...] = ()) -> None:
    done = Done(sequence=1, results=[Result(id_, b"") for id_ in ids])
    history.add(ENGINE, "f", done, done.results, list(failed))


def told(what: Span | Ending) -> list[int] | int:
    return list(what.ids) if isinstance(what, Span) else what.id


def _wake() -> None:
    """Nobody waits."""


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


def test_how_long_it_was_waited_for() -> None:
    history = History(2)
    history.add(ENGINE, "f", Done(sequence=1, results=[Result(1, b"")]), [Result(1, b"")], [], 0.25)
    assert next(history.newest_first()).waited_s == 0.25


def test_waits_for_others_are_kept_the_last_first() -> None:
    history = History(2)
    for number in range(3):
        history.pause(ENGINE, number, Pause("f", 10.0 + number), 20.0)
    assert list(history.waits()) == [Wait(7, 3, number, "f", 10.0 + number, 20.0) for number in (2, 1)]


def test_the_oldest_go_first() -> None:
    history = History(2)
    for number in range(3):
        done = Done(sequence=1, results=[Result(number, b"")])
        history.add(ENGINE, "f", done, done.results, [])
    assert [list(span.ids) for span in history.newest_first()] == [[2], [1]]
    assert history.total == 3


def test_what_ended_badly_stands_between_the_spans() -> None:
    history = History(10)
    history.end_badly(1, "first", TaskState.FAILED)
    add(history, 2, 3, failed=(3,))
    history.end_badly(4, "queued", TaskState.CANCELLED, actor=99)
    history.end_badly(5, "died", TaskState.FAILED, engine=ENGINE, error="WorkerDied: of old age")
    add(history, 6)
    assert [told(what) for what in history.ended()] == [[6], 5, 4, [2, 3], 1]
    died, queued = list(history.ended())[1:3]
    assert died == Ending(5, "died", "FAILED", 0, 7, 3, 1, "WorkerDied: of old age")
    assert queued == Ending(4, "queued", "CANCELLED", 99, 0, None, 1, "")


def test_what_an_engine_has_answered_is_told_once_with_its_state() -> None:
    history = History(10)
    history.end_badly(2, "f", TaskState.CANCELLED, error="TaskCancelled: no")
    add(history, 1, 2, 3, failed=(2, 3))
    assert [told(what) for what in history.ended()] == [[1, 2, 3]]
    assert [history.ending_of(number) for number in (2, 3)] == [("CANCELLED", "TaskCancelled: no"), ("FAILED", "")]


def test_the_oldest_endings_go_first() -> None:
    history = History(2)
    for number in (1, 2, 1, 3):  # 1 ends twice: it was made again
        history.end_badly(number, "f", TaskState.FAILED)
    assert [told(what) for what in history.ended()] == [3, 1]


def test_actors_that_are_no_more() -> None:
    history = History(1, max_actors=2)
    for number in range(3):
        options = ActorOptions(class_name="C", name=f"c{number}", namespace="n", max_restarts=4, detached=True)
        actor = Actor(CreateActor(actor=number, function=b"", args=b"", options=options), FUNCTION, _wake)
        actor.restarts, actor.ended = 3, "it was killed"
        history.bury(actor)
    assert list(history.actors) == [
        PastActor(number, "C", f"c{number}", "n", True, 3, 4, "it was killed") for number in (1, 2)
    ]


def test_calls_that_clients_have_sent_themselves() -> None:
    history = History(2)
    history.add_direct(ENGINE, Ran(tasks=[4, 5, 6], name="f", run_s=0.5, began_s=1.0))
    assert next(history.newest_first()) == Span(7, 3, "f", range(4, 7), 1.0, 0.5, (), 99, 0.0)
