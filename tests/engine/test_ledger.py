"""The engine's books, without an engine."""

from __future__ import annotations

from fibernb.core.messages import Recall, Recalled, Run
from fibernb.engine import ledger as ledger_module
from fibernb.engine.ledger import Ended, Ledger, Verdict
from fibernb.model import Call, Result


def run(position: int, *tasks: int) -> Run:
    return Run(function=b"f", calls=[Call(task, b"") for task in tasks], position=position)


def finish(ledger: Ledger, position: int, task: int) -> None:
    assert ledger.begin(position, task) is Verdict.RUN
    ledger.end(Result(task, b""), 1.0, 0.5)


def test_results_are_packed_in_order_with_the_time_they_took() -> None:
    ledger = Ledger()
    assert ledger.accept([run(0, 11, 12)], 0)
    assert ledger.pack() is None
    finish(ledger, 0, 11)
    finish(ledger, 1, 12)
    assert ledger.has_results
    done = ledger.pack()
    assert done is not None
    assert ([result.id for result in done.results], done.sequence, done.run_s) == ([11, 12], 1, 1.0)
    assert ledger.pack() is None


def test_forgetting_is_cumulative() -> None:
    ledger = Ledger()
    for position in range(3):
        ledger.accept([run(position, position + 1)], 0)
        finish(ledger, position, position + 1)
        ledger.pack()
    assert [done.sequence for done in ledger.forget(2)] == [1, 2]
    assert ledger.forget(2) == []
    assert [done.sequence for done in ledger.restand()[0].redelivers] == [3]


def test_what_came_over_an_old_link_does_not_count() -> None:
    ledger = Ledger()
    ledger.accept([run(0, 11)], 0)
    _, generation = ledger.restand()
    assert generation == 1
    assert not ledger.accept([run(1, 12)], 0)
    assert ledger.accept([run(1, 13)], 1)
    assert ledger.restand()[0].holds == [11, 13]


def test_recall_of_what_waits_and_of_what_was_not_read() -> None:
    ledger = Ledger()
    ledger.accept([run(0, 11, 12, 13)], 0)
    assert ledger.begin(0, 11) is Verdict.RUN
    assert ledger.recall(Recall(position=0, until=2)) == Recalled(position=1, until=2)
    assert ledger.recall(Recall(position=3, until=5)) == Recalled(position=3, until=5)
    ledger.end(Result(11, b""), 1.0, 0.0)
    verdicts = [ledger.begin(position, 11 + position) for position in range(1, 6)]
    assert verdicts == [Verdict.SKIP, Verdict.RUN, Verdict.SKIP, Verdict.SKIP, Verdict.RUN]


def test_recall_of_what_has_begun_gives_nothing_back() -> None:
    ledger = Ledger()
    ledger.accept([run(0, 11, 12)], 0)
    finish(ledger, 0, 11)
    finish(ledger, 1, 12)
    assert ledger.recall(Recall(position=0, until=1)) == Recalled(position=1, until=1)


def test_a_task_is_stopped_before_it_begins_or_interrupted_while_it_runs() -> None:
    ledger = Ledger()
    ledger.accept([run(0, 11, 12)], 0)
    assert ledger.begin(0, 11) is Verdict.RUN
    assert ledger.stop(11)
    assert not ledger.stop(12)
    ledger.end(Result(11, b""), 1.0, 0.0)
    assert ledger.begin(1, 12) is Verdict.STOP
    assert ledger.begin(2, 12) is Verdict.RUN


def test_stopped_tasks_are_forgotten_in_the_end() -> None:
    ledger = Ledger()
    for task in range(1, ledger_module.MAX_STOPPED + 2):
        ledger.stop(task)
    assert ledger.begin(0, 1) is Verdict.RUN
    assert ledger.begin(1, 2) is Verdict.STOP


def test_standing_after_recalls() -> None:
    ledger = Ledger()
    ledger.accept([run(0, 11, 12), run(2, 13, 14)], 0)
    ledger.begin(0, 11)
    ledger.recall(Recall(position=2, until=9))
    standing, generation = ledger.restand()
    assert (standing.received, standing.holds, standing.running, standing.redelivers) == (4, [11, 12], True, [])
    ledger.end(Result(11, b""), 1.0, 0.0)
    assert ledger.accept([run(4, 15)], generation)
    verdicts = [ledger.begin(position, 11 + position) for position in range(1, 5)]
    assert verdicts == [Verdict.RUN, Verdict.SKIP, Verdict.SKIP, Verdict.RUN]


def test_finished_tasks_are_redelivered_and_not_held() -> None:
    ledger = Ledger()
    ledger.accept([run(0, 11, 12)], 0)
    finish(ledger, 0, 11)
    standing, _ = ledger.restand()
    assert (standing.holds, standing.running) == ([12], False)
    assert [result.id for done in standing.redelivers for result in done.results] == [11]


def test_started_calls_are_dropped_from_the_books() -> None:
    ledger = Ledger()
    for position in range(100):
        ledger.accept([run(position, position + 1)], 0)
        finish(ledger, position, position + 1)
    ledger.pack()
    ledger.forget(1)
    assert ledger.restand()[0] == (100, [], False, [])


# ---- calls that clients send themselves -------------------------------------------------------------------


def ended(task: int) -> Ended:
    return Ended(Result(task, b"value"), 1.0, 0.5)


def test_a_direct_call_is_remembered_and_told_to_nobody() -> None:
    ledger = Ledger()
    assert ledger.begin_direct(11) is Verdict.RUN
    assert (ledger.current, ledger.is_running) == (11, True)
    ledger.end_direct(ended(11))
    assert (ledger.current, ledger.is_running, ledger.has_results) == (0, False, False)
    assert ledger.answers == {11: ended(11)}


def test_what_the_hub_sends_after_the_client_is_not_run_again() -> None:
    ledger = Ledger()
    ledger.begin_direct(11)
    ledger.end_direct(ended(11))
    ledger.accept([run(0, 11, 12)], 0)
    assert ledger.take_known(0, 11)
    assert not ledger.take_known(1, 12)
    done = ledger.pack()
    assert done is not None
    assert done.results == [ended(11).result]
    assert (done.began_s, done.run_s) == (1.0, 0.5)


def test_a_direct_call_that_was_stopped_is_not_begun() -> None:
    ledger = Ledger()
    assert not ledger.stop(11)
    assert ledger.begin_direct(11) is Verdict.STOP
    assert not ledger.stop(12)
    assert ledger.begin_direct(13) is Verdict.RUN
    assert ledger.stop(13)


def test_a_new_hub_hears_of_a_direct_call_that_runs() -> None:
    ledger = Ledger()
    ledger.accept([run(0, 21)], 0)
    ledger.begin_direct(11)
    standing, _ = ledger.restand()
    assert (standing.holds, standing.running) == ([11, 21], True)
    ledger.end_direct(ended(11))
    done = ledger.pack()
    assert done is not None
    assert [result.id for result in done.results] == [11], "the hub waits for it now"


def test_a_new_hub_hears_of_what_direct_calls_came_to() -> None:
    ledger = Ledger()
    ledger.begin_direct(11)
    ledger.end_direct(ended(11))
    standing, _ = ledger.restand()
    assert (standing.holds, standing.running) == ([], False)
    assert [result.id for done in standing.redelivers for result in done.results] == [11]


def test_direct_calls_beside_each_other() -> None:
    ledger = Ledger()
    ledger.hand_out_direct(11)
    ledger.hand_out_direct(12)
    assert ledger.begin_beside(11) is Verdict.RUN
    assert ledger.take_known(4, 11)
    assert ledger.started == 5
    assert ledger.restand()[0].holds == [11, 12]
    ledger.end_direct(ended(11))
    done = ledger.pack()
    assert done is not None
    assert [result.id for result in done.results] == [11]


def test_only_so_many_answers_are_remembered() -> None:
    ledger = Ledger()
    for task in range(1, ledger_module.MAX_ANSWERS + 3):
        ledger.begin_direct(task)
        ledger.end_direct(ended(task))
    assert len(ledger.answers) == ledger_module.MAX_ANSWERS
    assert 1 not in ledger.answers
