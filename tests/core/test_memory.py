from fibernb.core.events import EngineMemory, MemoryLow
from fibernb.core.messages import CreateActor
from fibernb.model import ActorOptions, Outcome, TaskOptions
from tests.core.bench import Bench, F, task

GB = 10**9


def short(bench: Bench, **used: int) -> list[int]:
    """Memory is short; returns the engines that are killed. ``used``: gigabytes, by e and the engine's number."""
    engines = [EngineMemory(engine=int(name[1:]), used_bytes=amount * GB) for name, amount in used.items()]
    bench.handle(MemoryLow(node="local", used_bytes=15 * GB, limit_bytes=16 * GB, engines=engines))
    return bench.kills()


def test_the_greediest_of_those_that_can_run_again_goes() -> None:
    bench = Bench(seats=4)
    bench.submit(1, 2)
    bench.submit(3, options=TaskOptions(max_retries=0))
    assert short(bench, e1=2, e2=5, e3=9, e4=11, e99=50) == [2]
    assert short(bench, e1=2) == [], "one is going"
    bench.exit(2)
    assert short(bench, e1=2, e3=9) == [1]


def test_its_task_fails_with_the_figures_in_the_end() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(max_retries=0))
    assert short(bench, e1=9) == [1]
    bench.exit(1)
    outcome, value = bench.results()[task(1)]
    assert outcome is Outcome.ERROR
    assert value.startswith(b"out of memory 0 local -9")
    assert b"it used 9.00 GB, and 15.00 of 16.00 GB were in use" in value


def test_actors_go_last_and_those_first_that_are_restarted() -> None:
    bench = Bench(seats=1)
    for number, restarts in ((90, 0), (91, 1)):
        options = ActorOptions(max_restarts=restarts)
        bench.say(CreateActor(actor=task(number), function=F, args=b"", options=options))
        bench.seat_all()
        [engine] = bench.calls()
        bench.done(engine, task(number))
    bench.submit(1, options=TaskOptions(max_retries=0))
    assert short(bench, e1=1, e2=9, e3=8) == [1]
    bench.exit(1)
    assert short(bench, e2=9, e3=8) == [3]
    bench.exit(3)
    assert short(bench, e2=9) == [2]


def test_if_nothing_runs_nothing_can_be_done() -> None:
    assert short(Bench(seats=1), e1=9) == []
