import pytest

from fibernb.core.commands import StartEngine
from fibernb.core.events import (
    EngineAttached,
    EngineExited,
    EngineUnreachable,
    LiveEngine,
    NodeLost,
    NodeUp,
    RecoverFrom,
    StartFailed,
)
from fibernb.core.messages import (
    ActorRecord,
    Cancel,
    CreateActor,
    Done,
    Exit,
    Remember,
    RestartSeats,
    Scale,
    SeatsChanged,
    Submit,
)
from fibernb.core.settings import CoreSettings
from fibernb.model import Call, Outcome, Resources, Result, TaskOptions
from tests.core.bench import ANNA, Bench, F, of, task
from tests.core.invariants import board_of
from tests.core.test_acting import A, make


def attach(bench: Bench, engine: int, rank: int) -> None:
    bench.handle(EngineAttached(engine=engine, rank=rank, pid=1))


# ---- starting -------------------------------------------------------------------------------------------


def test_seats_are_started_and_filled() -> None:
    bench = Bench(seats=0)
    bench.say(Scale(seats=2))
    assert of(bench.commands, StartEngine) == [
        StartEngine(engine=1, rank=0, node="local"),
        StartEngine(engine=2, rank=1, node="local"),
    ]
    attach(bench, 2, 1)
    assert (bench.status().starting, bench.status().ready) == (1, 1)


def test_seats_wait_for_a_node_with_room() -> None:
    bench = Bench(seats=0, slots=1)
    bench.say(Scale(seats=3))
    assert bench.starts() == [0]
    assert bench.status().pending == ["2 seats wait for a free slot on a node"]
    bench.handle(NodeUp(node="b", slots=5), NodeUp(node="c", slots=5))
    assert [(start.rank, start.node) for start in of(bench.commands, StartEngine)] == [(1, "b"), (2, "c")]


def test_a_node_may_tell_that_it_has_more() -> None:
    bench = Bench(seats=1, slots=1)
    bench.say(Scale(seats=2))
    assert bench.starts() == []
    bench.handle(NodeUp(node="local", slots=2, capacity=Resources(milli_gpus=7)))
    assert bench.starts() == [1]
    assert board_of(bench.scheduler).nodes["local"].stock.capacity.milli_gpus == 7


def test_an_engine_that_does_not_attach_in_time_is_replaced() -> None:
    bench = Bench(seats=0)
    bench.say(Scale(seats=1))
    bench.wait(60.0)
    assert bench.kills() == [1]
    attach(bench, 1, 0)
    assert bench.status().refused == 0, "it came too late, and that is no fault of its own"
    bench.exit(1)
    assert bench.starts() == []
    bench.wait(0.1)
    assert bench.starts() == [0]


def test_an_unknown_engine_is_ended() -> None:
    bench = Bench(seats=1)
    attach(bench, 99, 0)
    assert bench.kills() == [99]


def test_attaching_twice_is_refused() -> None:
    bench = Bench(seats=1)
    attach(bench, 1, 0)
    assert bench.status().refused == 1


def test_the_namespace_comes_before_anything_else() -> None:
    bench = Bench(seats=0)
    bench.say(
        Remember(keys=("a",), function=F, args=[b"all"]),
        Remember(keys=("b",), function=F, args=[b"one", b"zero"], ranks=[1, 0]),
        Scale(seats=1),
    )
    started = bench.commands
    bench.pin(1, [0])
    bench.submit(2)
    bench.commands = started
    bench.seat_all()
    assert [call.args for _, run in bench.runs() for call in run.calls] == [b"all", b"zero"]
    bench.tell(1, Done(sequence=1, results=[Result(1, b""), Result(2, b"")]))
    assert bench.calls() == {1: [task(1)]}


def test_an_engine_beside_the_seats_is_starting_until_it_has_the_namespace() -> None:
    bench = Bench(seats=1)
    bench.say(Remember(keys=("a",), function=F, args=[b"state"]))
    bench.submit(1, options=TaskOptions(environment="other"))
    (rank,) = bench.starts()
    bench.seat_all()
    assert rank < 0
    assert [call.args for _, run in bench.runs() for call in run.calls] == [b"state"]
    bench.submit(2, options=TaskOptions(environment="other"))
    assert not bench.starts()


# ---- failing --------------------------------------------------------------------------------------------


def test_failed_starts_are_tried_again_ever_later() -> None:
    bench = Bench(seats=0)
    bench.say(Scale(seats=1))
    delays = []
    for engine in range(1, 14):
        bench.handle(StartFailed(engines=[engine], reason="no memory"))
        assert bench.starts() == []
        begun = bench.now
        while not bench.starts():
            wake = bench.scheduler.next_wakeup(bench.now)
            assert wake is not None
            bench.wait(wake - bench.now)
        delays.append(bench.now - begun)
    assert delays[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert delays[-1] == pytest.approx(30.0)


def test_a_failure_is_told_and_forgotten() -> None:
    bench = Bench(seats=0)
    bench.say(Scale(seats=1))
    bench.wait(1.0)
    bench.handle(StartFailed(engines=[1, 77], reason="no memory"))
    text = "the engine of rank 0 on local ended early: no memory"
    assert bench.told(ANNA, SeatsChanged)[-1].problem == text
    assert bench.status().pending == [f"rank 0 is tried again later, after 1 failures: {text}"]
    bench.wait(0.1)
    bench.seat_all()
    assert bench.status().problem == ""


def test_an_engine_that_ends_before_it_attached_is_a_failure() -> None:
    bench = Bench(seats=0)
    bench.say(Scale(seats=1))
    bench.handle(EngineExited(engine=1, exit_code=1, last_output="line\nImportError: numpy\n", evidence="at start"))
    problem = "the engine of rank 0 on local ended early: exit code 1; at start; ImportError: numpy"
    assert bench.status().problem == problem
    assert bench.status().engines[0].deaths == 1


def test_an_engine_that_dies_in_the_namespace_is_a_failure() -> None:
    bench = Bench(seats=0)
    bench.say(Remember(keys=("a",), function=F, args=[b"all"]), Scale(seats=1))
    bench.seat_all()
    bench.exit(1)
    assert bench.starts() == []


def test_an_engine_that_dies_soon_without_having_done_anything_is_a_failure() -> None:
    bench = Bench(seats=3)
    bench.exit(1)
    assert bench.starts() == []
    bench.submit(1)
    bench.done(2, task(1))
    bench.exit(2)
    assert bench.starts() == [1], "this one had finished something"
    bench.wait(6.0)
    bench.exit(3)
    assert 2 in bench.starts(), "this one had lived for a while"


def test_an_engine_that_dies_in_a_task_is_replaced_at_once() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.exit(1)
    assert bench.starts() == [0]


def test_a_failed_start_of_an_attached_engine_is_no_news() -> None:
    bench = Bench(seats=1)
    bench.handle(StartFailed(engines=[1], reason="late"))
    assert bench.status().ready == 1


def test_start_again_waits_for_nothing_when_restarted() -> None:
    bench = Bench(seats=1)
    bench.exit(1)
    bench.say(RestartSeats(ranks=[0, 9]))
    assert bench.starts() == [0]


# ---- ending ---------------------------------------------------------------------------------------------


def test_a_lost_link_means_a_new_engine() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.handle(EngineUnreachable(engine=1), EngineUnreachable(engine=1), EngineUnreachable(engine=9))
    assert bench.kills() == [1]
    assert bench.starts() == []
    bench.exit(1)
    bench.exit(1)
    assert board_of(bench.scheduler).seats[0].deaths == 1


def test_results_that_arrive_before_the_end_is_certain_count() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.handle(EngineUnreachable(engine=1))
    bench.done(1, task(1))
    assert bench.results() == {task(1): (Outcome.OK, b"value")}


def test_a_lost_node_takes_its_engines_along() -> None:
    bench = Bench(seats=1, slots=1)
    bench.handle(NodeUp(node="other"))
    bench.say(Scale(seats=3))
    bench.seat_all()
    bench.pin(1, [0, 1])
    bench.handle(NodeLost(node="other", reason="power cut"), NodeLost(node="never seen", reason=""))
    assert bench.results() == {task(2): (Outcome.ERROR, b"died 1 other None  its node was lost: power cut")}
    bench.wait(1.0)
    assert bench.status().pending == ["2 seats wait for a free slot on a node"]
    bench.handle(NodeUp(node="third"))
    assert bench.starts() == [1, 2]


def test_the_client_in_an_engine_ends_with_it() -> None:
    bench = Bench(seats=2)
    bench.submit(1)
    bench.attach(70, engine=1)
    bench.say(Submit(function=F, calls=[Call(task(2, 70), b"")], parent=task(1)), client=70)
    bench.exit(1)
    assert 70 not in board_of(bench.scheduler).clients
    assert task(2, 70) not in board_of(bench.scheduler).tasks


def test_lost_ranks_are_told() -> None:
    bench = Bench(seats=2)
    bench.wait(1.0)
    bench.exit(2)
    bench.wait(0.05)
    assert bench.told(ANNA, SeatsChanged)[-1].lost == [1]
    bench.wait(0.05)
    bench.seat_all()
    bench.wait(0.05)
    assert bench.told(ANNA, SeatsChanged)[-1].lost == []


# ---- leaving --------------------------------------------------------------------------------------------


def test_a_seat_that_starts_is_ended_when_it_is_not_needed() -> None:
    bench = Bench(seats=0)
    bench.say(Scale(seats=1))
    bench.say(Scale(seats=0))
    assert bench.kills() == [1]
    bench.say(Scale(seats=0))
    assert bench.kills() == []
    bench.exit(1)
    assert board_of(bench.scheduler).seats == {}


def test_a_seat_that_is_needed_again_before_its_engine_ended_gets_a_new_one() -> None:
    bench = Bench(seats=1)
    bench.say(Scale(seats=0))
    assert bench.sent(Exit) == [(1, Exit())]
    bench.say(Scale(seats=1))
    bench.exit(1, exit_code=0)
    assert bench.starts() == [0]


def test_an_engine_that_attaches_after_its_seat_has_gone_drains() -> None:
    bench = Bench(seats=0, settings=CoreSettings())
    bench.say(Scale(seats=1))
    board_of(bench.scheduler).scaling.seats = 0
    bench.seat_all()
    assert bench.sent(Exit) == [(1, Exit())]


def test_an_engine_that_does_not_exit_is_killed() -> None:
    bench = Bench(seats=1)
    bench.say(Scale(seats=0))
    bench.handle(EngineUnreachable(engine=1))
    assert bench.kills() == []
    bench.wait(3.0)
    assert bench.kills() == [1]


def test_a_seat_that_has_no_engine_goes_at_once_with_what_is_pinned_to_it() -> None:
    bench = Bench(seats=1)
    bench.exit(1)
    bench.pin(1, [0])
    bench.say(Scale(seats=0))
    assert bench.results() == {task(1): (Outcome.ERROR, b"no rank 0 of 0")}


def test_a_seat_is_restarted() -> None:
    bench = Bench(seats=1)
    bench.say(RestartSeats(ranks=[0]))
    assert bench.kills() == [1]
    bench.exit(1)
    assert bench.starts() == [0]
    assert board_of(bench.scheduler).seats[0].deaths == 0


def test_after_a_restart_of_the_hub_engines_tell_what_they_have() -> None:
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=1, rank=1, pid=1)]))
    bench.wait(1.0)
    assert bench.starts() == [], "it is not known yet how many seats there are to be"
    bench.handle(EngineAttached(engine=1, rank=1, pid=1, received=1, holds=[task(1)], running=True))
    assert [each.id for each in board_of(bench.scheduler).engines[1].line] == [task(1)]


def test_an_engine_may_end_after_its_node() -> None:
    bench = Bench(seats=1)
    board_of(bench.scheduler).nodes.clear()
    bench.exit(1)
    assert board_of(bench.scheduler).engines == {}


# ---- seats beside the declared ones ----------------------------------------------------------------------


def test_seats_beside_the_declared_ones_go_with_their_engines() -> None:
    bench = Bench(seats=1)
    none = TaskOptions(resources=Resources(milli_cpus=0))
    bench.submit(1, options=none)
    [start] = of(bench.commands, StartEngine)
    bench.handle(StartFailed(engines=[start.engine], reason="no memory"))
    bench.wait(0.2)
    bench.seat_all()
    [engine] = bench.calls()
    bench.done(engine, task(1))
    bench.exit(engine)
    assert list(board_of(bench.scheduler).seats) == [0]
    bench.submit(2, options=none)
    [start] = of(bench.commands, StartEngine)
    bench.handle(StartFailed(engines=[start.engine], reason="no memory"))
    bench.say(Cancel(tasks=[task(2)]))
    bench.wait(0.2)
    assert list(board_of(bench.scheduler).seats) == [0]


def test_an_actor_is_restarted_on_its_seat() -> None:
    bench = Bench(seats=1)
    engine = make(bench, max_restarts=1)
    bench.exit(engine)
    assert bench.starts() == [-2]
    bench.seat_all()
    [(engine, _)] = bench.runs()
    bench.exit(engine)
    assert list(board_of(bench.scheduler).seats) == [0]


def test_a_seat_waits_for_its_node() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(resources=Resources(milli_cpus=0)))
    [start] = of(bench.commands, StartEngine)
    bench.handle(StartFailed(engines=[start.engine], reason="no memory"))
    board = board_of(bench.scheduler)
    node = board.nodes.pop("local")
    bench.wait(0.2)
    assert not bench.starts()
    board.nodes["local"] = node
    bench.drain()
    assert bench.starts() == [-2]


def test_an_actor_from_a_hub_before_this_one() -> None:
    bench = Bench(seats=0)
    bench.handle(RecoverFrom(node="local", engines=[LiveEngine(engine=7, rank=-2, pid=1)]))
    record = ActorRecord(create=CreateActor(actor=A, function=F, args=b""), code=b"code of f")
    bench.handle(EngineAttached(engine=7, rank=-2, pid=1, actor=record))
    assert board_of(bench.scheduler).actors[A].rank == -2


def test_pinned_tasks_that_depend_on_each_other_go_with_their_seat() -> None:
    bench = Bench(seats=0, slots=1)
    bench.say(Scale(seats=2))
    bench.pin(1, [1])
    bench.pin(2, [1], deps=[task(1)])
    bench.say(Scale(seats=1))
    assert set(bench.results()) == {task(1), task(2)}
