from fibernb.core.commands import DropClient, FreeBlocks, ShutDown
from fibernb.core.events import ClientAttached, ClientGone
from fibernb.core.messages import (
    Acknowledge,
    Deliver,
    Detach,
    Done,
    Fetch,
    Goodbye,
    Hold,
    HubStops,
    Interrupt,
    Output,
    PutObjects,
    Recovered,
    SeatsChanged,
    Stop,
    Submit,
)
from fibernb.model import Call, Outcome, Result, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, F, of, task
from tests.core.invariants import board_of, sizes


def gone(bench: Bench, client: int = ANNA) -> None:
    bench.handle(ClientGone(client=client))


def back(bench: Bench, client: int = ANNA, lease_s: float = 60.0) -> None:
    bench.handle(ClientAttached(client=client, lease_s=lease_s, resumes=True))


def shut_downs(bench: Bench) -> list[str]:
    return [command.reason for command in of(bench.commands, ShutDown)]


def test_a_new_client_is_told_that_it_is_new_and_how_many_seats_there_are() -> None:
    bench = Bench(seats=2)
    bench.handle(ClientAttached(client=BERT, lease_s=1.0))
    assert bench.told(BERT, Recovered) == [Recovered(fresh=True)]
    assert [message.ready for message in bench.told(BERT, SeatsChanged)] == [2]


def test_a_client_in_an_engine_does_not_care_for_seats() -> None:
    bench = Bench(seats=2)
    bench.handle(ClientAttached(client=BERT, lease_s=1.0, engine=1))
    assert bench.told(BERT, SeatsChanged) == []


def test_what_is_not_acknowledged_is_delivered_again() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.done(1, task(1))
    bench.submit(2)
    gone(bench)
    bench.tell(1, Output(task=task(2), rank=0, sequence=0, stream="stdout", text="x"))
    bench.done(1, task(2))
    assert bench.told(ANNA, Deliver) == []
    back(bench)
    assert bench.told(ANNA, Recovered) == [Recovered(fresh=False)]
    assert [message.sequence for message in bench.told(ANNA, Deliver)] == [1, 2]
    kinds = [type(command.message) for command in bench.commands if hasattr(command, "message")]
    assert kinds.index(Output) < kinds.index(Deliver), "output comes before the results"
    bench.say(Acknowledge(sequence=2))
    back(bench)
    assert bench.told(ANNA, Deliver) == []


def test_acknowledging_is_cumulative_and_partial() -> None:
    bench = Bench(seats=1)
    for number in (1, 2, 3):
        bench.submit(number)
        bench.done(1, task(number))
    bench.acknowledge(2)
    assert set(board_of(bench.scheduler).answers) == {task(3)}
    bench.acknowledge(2)
    bench.acknowledge(99)
    assert not any(sizes(bench.scheduler).values())


def test_several_values_are_forgotten_together() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(num_returns=3))
    bench.submit(10, options=TaskOptions(num_returns=2))
    bench.done(1, task(1), outcome=Outcome.ERROR)
    bench.acknowledge(1)
    assert board_of(bench.scheduler).part_of == {task(11): task(10)}
    assert board_of(bench.scheduler).answers == {}


def test_a_client_that_comes_back_tells_again_what_it_holds() -> None:
    bench = Bench()
    bench.say(PutObjects(objects=[Result(task(number), b"x") for number in (1, 2, 3)]))
    back(bench)
    bench.say(PutObjects(objects=[Result(task(1), b"x")]), Hold(objects=[task(2)]))
    assert sizes(bench.scheduler)["objects"] == 3
    bench.wait(10.0)
    assert set(board_of(bench.scheduler).objects.entries) == {task(1), task(2)}


def test_breaking_off_twice_is_breaking_off_once() -> None:
    bench = Bench()
    gone(bench)
    bench.wait(50.0)
    gone(bench)
    gone(bench, client=99)
    bench.wait(10.0)
    assert shut_downs(bench) == ["the last client has gone and its lease is over"]


def test_a_client_that_comes_back_in_time_keeps_all() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    gone(bench)
    bench.wait(59.0)
    back(bench)
    bench.wait(600.0)
    assert shut_downs(bench) == []
    bench.done(1, task(1))
    assert set(bench.results()) == {task(1)}


def test_a_lease_that_is_over_ends_what_was_asked_for() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.submit(1, 2)
    bench.submit(3, deps=[task(1)])
    bench.say(PutObjects(objects=[Result(task(50), b"x")]))
    bench.attach(7, engine=1)
    bench.say(Submit(function=F, calls=[Call(task(9, 7), b"")], parent=task(1)), client=7)
    gone(bench)
    bench.wait(60.0)
    assert DropClient(client=ANNA) in bench.commands
    assert bench.sent(Interrupt) == [(1, Interrupt(task=task(1)))]
    assert bench.results(7)[task(9, 7)][0] is Outcome.CANCELLED
    assert shut_downs(bench) == []
    board = board_of(bench.scheduler)
    assert board.tasks == {}
    bench.done(1, task(1), outcome=Outcome.CANCELLED)
    bench.acknowledge(9, client=7)
    assert not any(sizes(bench.scheduler).values())


def test_what_others_need_of_a_gone_client_goes_on() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.submit(0)
    bench.submit(1, deps=[task(0)])
    bench.submit(2, deps=[task(1)])
    bench.submit(3, deps=[task(1)], options=TaskOptions(num_returns=2))
    bench.submit(9, client=BERT, deps=[task(4)])
    bench.submit(6, parent=task(6))
    bench.say(Goodbye())
    assert set(board_of(bench.scheduler).tasks) == {task(0), task(1), task(3), task(9, BERT)}
    for number in (0, 1):
        bench.done(1, task(number))
    more = (Result(task(4), b"second"),)
    bench.tell(1, Done(sequence=3, results=[Result(task(3), b"first", Outcome.OK, more)], run_s=0.2))
    assert [run.inputs for _, run in bench.runs()] == [[Result(task(4), b"second")]]
    bench.sequences[1] = 3
    bench.done(1, task(9, BERT))
    bench.acknowledge(9, client=BERT)
    assert not any(sizes(bench.scheduler).values())


def test_a_client_that_comes_back_too_late_finds_what_others_kept() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.submit(1, 2)
    bench.say(Hold(objects=[task(1)]), client=BERT)
    bench.say(Goodbye())
    bench.attach()
    bench.submit(1, 3)
    bench.done(1, task(1))
    assert bench.results() == {task(1): (Outcome.OK, b"value")}


def test_what_a_gone_client_holds_is_dropped() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.say(PutObjects(objects=[Result(task(1), b"", blocks=(7,))]))
    bench.say(Hold(objects=[task(1)]), client=BERT)
    bench.say(Goodbye())
    assert of(bench.commands, FreeBlocks) == []
    bench.say(Goodbye(), client=BERT)
    assert of(bench.commands, FreeBlocks) == [FreeBlocks(blocks=[7])]


def test_values_that_were_fetched_come_again_after_a_break() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.say(PutObjects(objects=[Result(task(1), b"x")]))
    bench.handle(ClientGone(client=BERT))
    bench.say(Fetch(objects=[task(1)]), client=BERT)
    assert bench.results(BERT) == {}
    back(bench, BERT)
    assert bench.results(BERT) == {task(1): (Outcome.OK, b"x")}
    back(bench, BERT)
    assert bench.results(BERT) == {task(1): (Outcome.OK, b"x")}


def test_taking_in_what_was_fetched_is_not_taking_in_the_answer() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.submit(1)
    bench.say(Fetch(objects=[task(1)]), client=BERT)
    bench.done(1, task(1))
    assert bench.results(BERT) == bench.results() == {task(1): (Outcome.OK, b"value")}
    bench.acknowledge(1, client=BERT)
    assert set(board_of(bench.scheduler).answers) == {task(1)}


def test_undelivered_and_unacknowledged_results_are_dropped() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    bench.submit(1)
    bench.done(1, task(1))
    bench.submit(2)
    gone(bench)
    bench.done(1, task(2))
    bench.wait(60.0)
    assert not any(sizes(bench.scheduler).values())
    assert board_of(bench.scheduler).engines[1].receipts.forget == 2


def test_the_cluster_ends_with_its_last_client() -> None:
    bench = Bench()
    bench.say(Goodbye(stop=True))
    assert shut_downs(bench) == ["its last client ended it"]
    assert bench.wait(100.0) == []
    assert bench.scheduler.next_wakeup(bench.now) is None


def test_but_not_while_others_use_it() -> None:
    bench = Bench()
    bench.attach(BERT)
    bench.say(Goodbye(stop=True))
    assert shut_downs(bench) == []
    bench.say(Goodbye(stop=False), client=BERT)
    bench.wait(59.0)
    assert shut_downs(bench) == []
    bench.wait(1.0)
    assert shut_downs(bench) == ["no client came in time"]


def test_a_goodbye_leaves_time_for_the_next() -> None:
    bench = Bench()
    bench.attach(BERT)
    bench.say(Goodbye())
    bench.say(Goodbye(), client=BERT)
    bench.wait(50.0)
    back(bench)
    bench.wait(600.0)
    assert shut_downs(bench) == []


def test_clients_in_engines_do_not_keep_it_alive() -> None:
    bench = Bench(seats=1)
    bench.attach(70, engine=1)
    bench.say(Goodbye(stop=True))
    assert len(shut_downs(bench)) == 1


def test_a_cluster_that_is_kept_stays_until_it_is_stopped() -> None:
    bench = Bench()
    bench.say(Detach())
    bench.say(Goodbye(stop=True))
    bench.wait(1e6)
    assert shut_downs(bench) == []
    bench.attach(BERT)
    bench.attach(7)
    gone(bench, client=7)
    bench.say(Stop(), client=BERT)
    assert shut_downs(bench) == ["it was stopped"]
    assert bench.told(BERT, HubStops) == [HubStops(reason="it was stopped")]
    assert bench.told(7, HubStops) == []


def test_a_cluster_that_nobody_came_to_ends() -> None:
    bench = Bench()
    bench.say(Goodbye())
    bench.wait(61.0)
    assert len(shut_downs(bench)) == 1
