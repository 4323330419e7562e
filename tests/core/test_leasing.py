from fibernb.core.leasing import count_lent, end_pauses, give_back, take
from fibernb.core.messages import Blocked
from fibernb.core.seats import Engine
from fibernb.model import Resources, TaskOptions
from tests.core.bench import Bench, task
from tests.core.invariants import board_of

GPU = TaskOptions(resources=Resources(milli_gpus=1000))


def test_an_engine_has_its_resources_as_long_as_it_has_a_line() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=GPU)
    [(engine_id, run)] = bench.runs()
    assert run.gpus == (0,)
    board = board_of(bench.scheduler)
    engine = board.engines[engine_id]
    assert board.nodes["local"].stock.devices.used() == 1000
    bench.done(engine_id, task(1))
    assert engine.lease is None
    give_back(board, engine)
    take(board, engine, board.nodes["local"], GPU.resources)
    give_back(board, engine)
    assert board.nodes["local"].extra_milli == 0


def test_a_wait_that_its_engine_did_not_survive_is_noted() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(Blocked(task=task(1)))
    bench.now += 3.0
    bench.exit(1)
    end_pauses(board_of(bench.scheduler), Engine(9, 0, "local"), [task(1)])
    assert [(wait.id, wait.began_s, wait.ended_s) for wait in board_of(bench.scheduler).history.waits()] == [
        (task(1), 100.0, 103.0)
    ]


def test_a_seat_is_lent_once_and_comes_back_with_its_engine() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(Blocked(task=task(1)), Blocked(task=task(1)))
    board = board_of(bench.scheduler)
    node = board.nodes["local"]
    assert node.free_milli() == 1000
    engine = board.engines[1]
    count_lent(board, engine)
    assert node.free_milli() == 1000
    bench.exit(1)
    assert node.extra_milli == 0


def test_what_has_a_lease_lends_from_that() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=GPU)
    bench.say(Blocked(task=task(1)))
    board = board_of(bench.scheduler)
    assert board.nodes["local"].free_milli() == 1000
    assert not board.engines[1].lends_seat


def test_a_node_that_has_gone_gets_nothing_back() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(Blocked(task=task(1)))
    board = board_of(bench.scheduler)
    node = board.nodes.pop("local")
    give_back(board, board.engines[1])
    assert node.extra_milli == -1000


def test_who_has_nothing_to_lend_lends_nothing() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    board = board_of(bench.scheduler)
    count_lent(board, board.engines[1])
    assert board.nodes["local"].extra_milli == 0
