from fibernb.core.events import EngineUnreachable
from fibernb.core.messages import Cancel, Remember, RestartSeats, Started
from fibernb.model import Outcome, Resources, TaskOptions
from tests.core.bench import Bench, F, task
from tests.core.invariants import board_of, sizes


def after(bench: Bench, engine: int) -> dict[int, list[int]]:
    """An engine dies, another one comes; what runs then?"""
    bench.exit(engine)
    bench.seat_all()
    return bench.calls()


def test_a_call_runs_again_after_its_engine_died() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    assert after(bench, 1) == {2: [task(1)]}
    bench.done(2, task(1))
    assert bench.results() == {task(1): (Outcome.OK, b"value")}


def test_retries_are_bounded() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(max_retries=2))
    for engine in (1, 2):
        assert after(bench, engine) == {engine + 1: [task(1)]}
    bench.exit(3, exit_code=-11, last_output="Segmentation fault")
    assert bench.results() == {task(1): (Outcome.ERROR, b"died 0 local -11 Segmentation fault ")}
    bench.acknowledge(1)
    assert not any(sizes(bench.scheduler).values())


def test_without_retries_it_fails_at_once() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(max_retries=0))
    bench.exit(1)
    assert set(bench.results()) == {task(1)}


def test_a_pinned_call_is_not_run_elsewhere() -> None:
    bench = Bench(seats=2)
    bench.pin(1, [0, 1])
    bench.pin(3, [0])
    bench.exit(1)
    assert bench.results() == {task(1): (Outcome.ERROR, b"died 0 local -9  ")}
    bench.seat_all()
    assert bench.calls() == {3: [task(3)]}, "what had not begun waits for the new engine"


def test_who_was_close_behind_runs_alone_the_next_time() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    assert after(bench, 1) == {2: [task(1)]}
    bench.done(2, task(1))
    assert bench.calls() == {2: [task(2)]}
    assert board_of(bench.scheduler).tasks[task(2)].attempts == 0
    assert after(bench, 2) == {3: [task(3)]}, "suspects come after those that have waited longer"
    assert board_of(bench.scheduler).tasks[task(2)].attempts == 1


def test_what_is_known_to_have_begun_has_used_an_attempt() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, 3)
    bench.tell(1, Started(position=2))
    bench.exit(1)
    tasks = board_of(bench.scheduler).tasks
    assert [tasks[task(number)].attempts for number in (1, 2, 3)] == [1, 1, 0]


def test_after_a_restart_on_request_nobody_is_suspect() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, 3)
    bench.say(RestartSeats(ranks=[0]))
    assert bench.kills() == [1]
    assert after(bench, 1) == {2: [task(1), task(2), task(3)]}


def test_gravestones_and_the_namespace_are_forgotten() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2)
    bench.say(Cancel(tasks=[task(2)]), Remember(keys=("a",), function=F, args=[b"x"]))
    bench.exit(1)
    bench.seat_all()
    assert bench.calls() == {2: [1]}
    bench.exit(2)
    assert bench.results() == {}
    assert board_of(bench.scheduler).tasks[task(1)].attempts == 1


def test_a_cancelled_call_ends_as_cancelled() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(Cancel(tasks=[task(1)]))
    bench.exit(1)
    why = b"cancelled: it was cancelled, and its engine was replaced: it had ended by itself (replaced)"
    assert bench.results() == {task(1): (Outcome.CANCELLED, why)}


def test_the_error_says_why_the_engine_was_told_to_end() -> None:
    bench = Bench(seats=1)
    bench.pin(1, [0])
    bench.handle(EngineUnreachable(engine=1))
    bench.exit(1)
    assert bench.results() == {task(1): (Outcome.ERROR, b"died 0 local -9  its link broke")}


def test_resources_come_back() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(resources=Resources(milli_gpus=2000)))
    assert after(bench, 1) == {2: [task(1)]}
    assert board_of(bench.scheduler).nodes["local"].stock.devices.used() == 2000
