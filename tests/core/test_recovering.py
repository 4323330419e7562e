from fibernb.core.commands import RetainBlocks, ShutDown
from fibernb.core.events import ClientAttached, EngineAttached, LiveEngine, RecoverFrom
from fibernb.core.messages import DefineFunction, Fetch, Forget, Goodbye, PutObjects, Recall, Release, Scale, Submit
from fibernb.model import Call, Outcome, Result, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, F, of, task
from tests.core.invariants import board_of, sizes


class Restarted(Bench):
    """A hub that was started again; engines 11 and 12 of ranks 0 and 1 live."""

    def __init__(self, *ranks: int) -> None:
        super().__init__(seats=0)
        engines = [LiveEngine(engine=11 + rank, rank=rank, pid=1) for rank in reversed(ranks or (0, 1))]
        self.handle(RecoverFrom(node="local", engines=engines))

    def come(self, engine: int, *holds: int, received: int = 0, redelivers: int = 0) -> None:
        self.handle(
            EngineAttached(
                engine=engine,
                rank=engine - 11,
                pid=1,
                received=received or len(holds),
                holds=[task(number) for number in holds],
                running=bool(holds),
                redelivers=redelivers,
            )
        )


def test_nothing_is_decided_before_all_engines_have_told() -> None:
    bench = Restarted()
    bench.submit(1, 2)
    bench.come(11)
    assert bench.calls() == {}
    text = "the hub was restarted: 1 engines have not told yet what they have"
    assert bench.status().pending[-1] == text
    bench.come(12, redelivers=2)
    bench.done(12, task(2), value=b"two")
    assert bench.results() == {task(2): (Outcome.OK, b"two")}
    assert bench.calls() == {}
    bench.done(12, task(3))
    assert bench.calls() == {11: [task(1)]}


def test_what_runs_goes_on_and_is_not_sent_again() -> None:
    bench = Restarted(0)
    bench.submit(1, 2, 3)
    bench.come(11, 1, 2, received=8)
    assert bench.calls() == {}, "nothing is sent behind what is not known"
    engine = board_of(bench.scheduler).engines[11]
    assert [(each.id, each.position) for each in engine.line] == [(task(1), 6), (task(2), 7)]
    bench.done(11, task(1), task(2))
    assert set(bench.results()) == {task(1), task(2)}
    assert [(run.position, run.code) for _, run in bench.runs()] == [(8, b"code of f")]


def test_clients_may_come_after_the_engines() -> None:
    bench = Restarted(0)
    bench.come(11, 1, 2, redelivers=1)
    bench.done(11, task(5), value=b"five")
    bench.submit(1, 5)
    assert bench.results() == {task(5): (Outcome.OK, b"five")}
    bench.done(11, task(1), task(2), value=b"later")
    assert bench.results() == {task(1): (Outcome.OK, b"later")}
    bench.submit(2, 1)
    assert bench.results() == {task(2): (Outcome.OK, b"later")}
    bench.acknowledge(99)
    bench.wait(1.0)
    assert bench.sent(Forget) == [(11, Forget(forget=2))]
    assert not any(sizes(bench.scheduler).values())


def test_an_orphan_of_several_values() -> None:
    bench = Restarted(0)
    bench.come(11, redelivers=1)
    bench.done(11, task(5), outcome=Outcome.ERROR)
    bench.submit(5, options=TaskOptions(num_returns=2))
    bench.acknowledge(1)
    assert not any(sizes(bench.scheduler).values())


def test_a_result_may_come_twice() -> None:
    bench = Restarted()
    bench.come(11, redelivers=2)
    bench.done(11, task(5))
    bench.done(11, task(5))
    bench.submit(5)
    bench.come(12, redelivers=1)
    bench.done(12, task(5))
    assert bench.results() == {}


def test_a_pinned_call_that_runs_is_claimed() -> None:
    bench = Restarted(0)
    bench.come(11, 1)
    bench.submit(3)
    bench.pin(1, [0], deps=[task(3)])
    bench.pin(2, [0])
    assert bench.calls() == {}
    bench.done(11, task(1))
    assert set(bench.results()) == {task(1)}
    assert bench.calls() == {11: [task(2)]}


def test_a_pinned_call_that_waits_is_claimed_too() -> None:
    bench = Restarted(0)
    bench.pin(1, [0])
    bench.come(11, 1)
    assert list(board_of(bench.scheduler).seats[0].pinned) == []
    bench.done(11, task(1))
    assert set(bench.results()) == {task(1)}


def test_a_claimed_call_whose_engine_dies_runs_again_with_its_inputs() -> None:
    bench = Restarted(0)
    bench.come(11, 2)
    bench.say(Submit(function=F, calls=[Call(task(2), b"", (task(1),))]))
    bench.exit(11)
    assert bench.status().waiting == 1
    bench.say(PutObjects(objects=[Result(task(1), b"one")]), Scale(seats=1))
    bench.seat_all()
    assert [run.inputs for _, run in bench.runs()] == [[Result(task(1), b"one")]]


def test_a_call_that_nobody_has_claimed_yet_is_dropped_with_its_engine() -> None:
    bench = Restarted(0)
    bench.come(11, 2)
    bench.exit(11)
    assert board_of(bench.scheduler).tasks == {}
    bench.submit(2)
    assert bench.status().queued == 1


def test_two_engines_cannot_have_the_same_call() -> None:
    bench = Restarted()
    bench.come(11, 1)
    bench.come(12, 1, 2)
    bench.submit(1, 2)
    lines = [[each.id for each in board_of(bench.scheduler).engines[engine].line] for engine in (11, 12)]
    assert lines == [[task(1)], [task(2)]]


def test_inherited_calls_are_not_taken_back() -> None:
    bench = Restarted()
    bench.come(11, 1, 2, 3)
    bench.come(12)
    bench.submit(1, 2, 3)
    bench.wait(1.0)
    assert bench.sent(Recall) == []


def test_seats_are_those_of_the_engines_until_someone_says_otherwise() -> None:
    bench = Restarted(0, 2)
    assert bench.status().seats == 3
    assert bench.starts() == []
    bench.wait(5.0)
    assert bench.starts() == [1]


def test_scaling_starts_what_is_missing_at_once() -> None:
    bench = Restarted(0)
    bench.say(Scale(seats=2))
    assert bench.starts() == [1]
    assert board_of(bench.scheduler).engine_of(1).id > 2**20


def test_patience_with_engines_ends() -> None:
    bench = Restarted()
    bench.submit(1, 2)
    bench.come(11, redelivers=3)
    bench.wait(4.9)
    assert bench.calls() == {}
    bench.wait(0.1)
    assert bench.kills() == [12]
    assert bench.calls() == {11: [task(1)]}


def test_an_engine_that_dies_meanwhile_is_not_waited_for() -> None:
    bench = Restarted()
    bench.submit(1)
    bench.come(11)
    bench.exit(12)
    assert bench.calls() == {11: [task(1)]}


def test_inputs_that_are_not_known_yet_are_waited_for() -> None:
    bench = Restarted(0)
    bench.come(11)
    bench.submit(1, deps=[task(100)])
    bench.submit(2, deps=[task(101)])
    bench.say(PutObjects(objects=[Result(task(100), b"x")]))
    assert bench.calls() == {11: [task(1)]}
    bench.submit(3)
    bench.submit(4, deps=[task(3)])
    bench.submit(5, options=TaskOptions(num_returns=2))
    bench.submit(7, deps=[task(6)])
    bench.wait(65.0)
    assert bench.results() == {task(2): (Outcome.ERROR, b"unknown object %d" % task(101))}


def test_what_nobody_asks_for_is_dropped_in_the_end() -> None:
    bench = Restarted(0)
    bench.come(11, 1, 2, redelivers=1)
    bench.done(11, task(5))
    bench.wait(65.0)
    board = board_of(bench.scheduler)
    assert board.orphans == {}
    assert board.tasks == {}
    assert board.engines[11].receipts.forget == 1
    bench.done(11, task(1), task(2), outcome=Outcome.CANCELLED)
    bench.done(11, task(77))
    assert not any(sizes(bench.scheduler).values())


def test_a_hub_that_no_client_comes_back_to_ends() -> None:
    bench = Bench(seats=0)
    bench.say(Goodbye())
    bench.handle(RecoverFrom(node="other", engines=[], patience_s=5.0))
    bench.wait(64.0)
    assert of(bench.commands, ShutDown) == []
    bench.wait(1.0)
    assert len(of(bench.commands, ShutDown)) == 1


def test_functions_are_defined_again() -> None:
    bench = Restarted(0)
    bench.come(11)
    bench.handle(ClientAttached(client=ANNA, lease_s=60.0, resumes=True))
    bench.say(DefineFunction(digest=F, code=b"code of f"))
    bench.submit(1)
    assert bench.runs()[0][1].code == b"code of f"


def test_in_the_end_the_store_hears_what_is_still_needed() -> None:
    bench = Restarted(0)
    bench.come(11, redelivers=1)
    bench.answer(11, Result(task(7), b"", blocks=(7,)))
    bench.say(PutObjects(objects=[Result(task(8), b"", blocks=(8,)), Result(task(9), b"", blocks=(9,))]))
    bench.say(Release(objects=[task(9)]))
    assert bench.blocks() == ([], [])
    bench.wait(200.0)
    assert of(bench.commands, RetainBlocks) == [RetainBlocks(blocks=[8])]
    assert bench.blocks() == ([], [7, 9])


def test_what_others_need_of_a_client_that_does_not_come_back_goes_on() -> None:
    bench = Restarted(0)
    bench.handle(EngineAttached(engine=11, rank=0, pid=1, received=2, holds=[task(1, BERT), task(2, BERT)]))
    bench.say(Fetch(objects=[task(1, BERT)]))
    bench.wait(200.0)
    assert set(board_of(bench.scheduler).tasks) == {task(1, BERT)}
    bench.done(11, task(1, BERT))
    assert bench.results() == {task(1, BERT): (Outcome.OK, b"value")}


def test_what_nobody_has_in_the_end_is_missing_but_not_what_was_lost() -> None:
    bench = Restarted(0)
    bench.come(11)
    bench.say(Fetch(objects=[task(1, BERT)]), PutObjects(objects=[Result(task(2), b"", blocks=(7,))]))
    bench.say(Fetch(objects=[], lost=[7]))
    assert bench.results() == {}
    bench.wait(200.0)
    assert bench.results() == {task(1, BERT): (Outcome.ERROR, b"unknown object %d" % task(1, BERT))}
    assert board_of(bench.scheduler).objects.entries[task(2)].lost


def test_engines_beside_the_seats_are_expected_too() -> None:
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=7, rank=-2, pid=1)]))
    board = board_of(bench.scheduler)
    assert (board.scaling.seats, board.nodes["local"].extras) == (0, 1)
    bench.handle(EngineAttached(engine=7, rank=-2, pid=1))
    bench.wait(6.0)
    bench.wait(6.0)
    assert bench.status().extra == 0 or board.engines[7].doomed
