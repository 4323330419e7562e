"""Pools on a cluster."""

from __future__ import annotations

import asyncio
import functools
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.pool import MaybeEncodingError  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

import pytest

import fibernb as fnb
import fibernb.multiprocessing as mp
from fibernb.client.cluster import Cluster
from fibernb.errors import ConfigError, TaskCancelled, TaskUnschedulable, WorkerDied
from fibernb.multiprocessing import needs
from fibernb.multiprocessing.pool import Pool, ThreadPool
from fibernb.multiprocessing.pooling import staff
from tests.multiprocessing.conftest import Place, wait_until


def square(x: int) -> int:
    return x * x


def add(x: int, y: int = 0) -> int:
    return x + y


def fail_at(bad: int, x: int) -> int:
    if x == bad:
        raise ValueError(f"not {x}")
    return x


def pid(_: object = None) -> int:
    return os.getpid()


def touch_and_wait(directory: Path, name: str, until: str) -> str:
    """Leave a file of that name, and wait for another."""
    (directory / name).touch()
    wait_until((directory / until).exists, 60)
    return name


@pytest.fixture(scope="module")
def pool(cluster: Cluster) -> Iterator[Pool]:
    with mp.Pool(3) as made:
        yield made
    made.join()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    (tmp_path / "go").touch()  # lets go whoever still waits


# ---- every method -------------------------------------------------------------------------------------------


def test_every_method(pool: Pool) -> None:
    items, squares = range(20), [x * x for x in range(20)]
    pairs, sums = [(x, 1) for x in items], [x + 1 for x in items]
    assert pool.apply(add, (2,), {"y": 3}) == 5
    assert pool.apply_async(square, (3,)).get() == 9
    assert pool.map(square, items) == pool.map(square, items, 7) == pool.map(square, iter(items), 1) == squares
    assert pool.map_async(square, items).get() == squares
    assert pool.starmap(add, pairs) == pool.starmap(add, pairs, 7) == pool.starmap_async(add, pairs).get() == sums
    assert list(pool.imap(square, items)) == list(pool.imap(square, iter(items), 7)) == squares
    assert sorted(pool.imap_unordered(square, items, 7)) == sorted(pool.imap_unordered(square, iter(items))) == squares


def test_nothing_to_do(pool: Pool) -> None:
    assert pool.map(square, []) == pool.starmap(add, [], 3) == []
    assert list(pool.imap(square, [])) == list(pool.imap_unordered(square, iter([]))) == []


def test_functions_of_every_kind(pool: Pool) -> None:
    base = 10
    assert pool.map(lambda x: x + base, range(3)) == [10, 11, 12]
    assert pool.map(functools.partial(add, 5), range(3)) == [5, 6, 7]
    assert pool.apply("a-b".split, ("-",)) == ["a", "b"]
    assert pool.map(float, ["1", "2"]) == [1.0, 2.0]
    assert pool.apply(fail_at, (1,), {"x": 2}) == 2


def test_a_method_is_called_on_the_object_as_it_is(pool: Pool) -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def get(self, _: object = None) -> int:
            return self.count

    counter = Counter()
    assert pool.apply(counter.get) == 0
    counter.count = 1
    assert pool.apply(counter.get) == 1
    assert pool.map(counter.get, [1, 2]) == [1, 1]


def test_a_million_tiny_items_travel_in_batches(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    send = pool._owner._sender._piece

    def note(member: Any, held: Any) -> Any:
        sizes.append(held.span.size)
        return send(member, held)

    monkeypatch.setattr(pool._owner._sender, "_piece", note)
    assert pool.map(square, range(100_000)) == [x * x for x in range(100_000)]
    assert sum(sizes) >= 100_000
    assert len(sizes) < 10_000


def test_each_item_is_a_copy_of_its_own(pool: Pool) -> None:
    def append(items: list[int]) -> list[int]:
        items.append(len(items))
        return items

    shared: list[int] = []
    assert pool.map(append, [shared] * 50) == list(pool.imap(append, [shared] * 50)) == [[0]] * 50
    assert shared == []


def test_each_value_is_as_it_was_returned(pool: Pool) -> None:
    def remember(x: int, seen: list[int] = []) -> list[int]:  # noqa: B006
        seen.append(x)
        return seen[-1:] if x % 2 else seen[:]

    for number, seen in enumerate(pool.imap(remember, range(100))):
        assert seen[-1] == number


def test_large_items_and_values(pool: Pool) -> None:
    data = os.urandom(1_000_000)
    results = [pool.apply_async(bytes.upper, (data,)) for _ in range(12)]
    assert pool.map(bytes.lower, [data] * 12) == [data.lower()] * 12
    assert [result.get() for result in results] == [data.upper()] * 12


def test_what_was_sent_is_let_go(pool: Pool) -> None:
    pool.map(functools.partial(add, 1), range(10))
    assert not pool._cache
    assert not pool._owner._jobs
    assert not pool._owner._passing


# ---- errors -------------------------------------------------------------------------------------------------


def test_errors_come_back_as_themselves(pool: Pool) -> None:
    for call in (
        lambda: pool.apply(fail_at, (1, 1)),
        lambda: pool.starmap(fail_at, [(7, x) for x in range(20)]),
        lambda: pool.map(functools.partial(fail_at, 7), range(20), 3),
        lambda: list(pool.imap(functools.partial(fail_at, 7), range(20))),
    ):
        with pytest.raises(ValueError, match=r"not [17]") as caught:
            call()
        assert type(caught.value.__cause__) is multiprocessing.pool.RemoteTraceback  # type: ignore[attr-defined]
        assert 'raise ValueError(f"not {x}")' in str(caught.value.__cause__)


class Unusual(BaseException):
    pass


def fail_with(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [GeneratorExit("out"), Unusual("out"), asyncio.CancelledError("out")])
def test_what_is_no_exception_comes_back_as_well(pool: Pool, error: BaseException) -> None:
    before = {process.pid for process in pool._pool}
    for call in (
        lambda: pool.apply(fail_with, (error,)),
        lambda: pool.map(fail_with, [error]),
        lambda: next(pool.imap(fail_with, [error])),
    ):
        with pytest.raises(type(error), match="out"):
            call()
    assert {process.pid for process in pool._pool} == before


def test_an_iteration_goes_on_after_an_error(pool: Pool) -> None:
    values = pool.imap(functools.partial(fail_at, 3), range(6))
    seen: list[object] = []
    while True:
        try:
            seen.append(next(values))
        except StopIteration:
            break
        except ValueError:
            seen.append("error")
    assert seen == [0, 1, 2, "error", 4, 5]


class Refusing:
    def __reduce__(self) -> str:
        raise RuntimeError("cannot be pickled")


def make_refusing(_: object) -> Refusing:
    return Refusing()


def test_items_that_cannot_be_pickled(pool: Pool) -> None:
    told: list[object] = []
    with pytest.raises(RuntimeError, match="cannot be pickled"):
        pool.apply_async(add, (Refusing(),), error_callback=told.append).get()
    with pytest.raises(RuntimeError, match="cannot be pickled"):
        pool.map_async(add, [1, Refusing(), 2], error_callback=told.append).get()
    with pytest.raises(RuntimeError, match="cannot be pickled"):
        pool.map(functools.partial(add, Refusing()), [1, 2])  # type: ignore[arg-type]
    assert [type(error) for error in told] == [RuntimeError, RuntimeError]
    mixed = pool.imap(add, [1, Refusing(), 2])
    assert next(mixed) == 1
    with pytest.raises(RuntimeError, match="cannot be pickled"):
        next(mixed)
    assert next(mixed) == 2


def test_values_that_cannot_be_pickled(pool: Pool) -> None:
    for call in (lambda: pool.apply(make_refusing, (1,)), lambda: pool.map(make_refusing, range(9))):
        with pytest.raises(MaybeEncodingError) as caught:
            call()
        assert "Refusing object" in caught.value.value
        assert "cannot be pickled" in caught.value.exc


def restore_badly() -> None:
    raise OSError("cannot be restored")


class Unrestorable:
    def __reduce__(self) -> Any:
        return restore_badly, ()


def make_unrestorable(_: object) -> Unrestorable:
    return Unrestorable()


def test_what_cannot_be_loaded_is_an_error_and_harms_nobody_else(pool: Pool) -> None:
    with pytest.raises(OSError, match="cannot be restored"):
        pool.apply(add, (Unrestorable(),))
    with pytest.raises(OSError, match="cannot be restored"):
        pool.apply(make_unrestorable, (1,))
    assert pool.apply(add, (1,)) == 1


def test_an_iterable_that_fails(pool: Pool) -> None:
    class Failing:
        def __len__(self) -> int:
            return 3

        def __iter__(self) -> Iterator[int]:
            yield 1
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        pool.map_async(square, Failing()).get()
    values = pool.imap(square, Failing())
    assert next(values) == 1
    with pytest.raises(ValueError, match="no more"):
        next(values)
    with pytest.raises(StopIteration):
        next(values)
    with pytest.raises(TypeError, match="not iterable"):
        next(pool.imap(square, 5))  # type: ignore[arg-type]


def test_callbacks(pool: Pool, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[object] = []
    pool.map_async(square, [2, 3], callback=told.append, error_callback=told.append).wait()
    pool.apply_async(fail_at, (1, 1), callback=told.append, error_callback=told.append).wait()
    assert told[0] == [4, 9]
    assert isinstance(told[1], ValueError)
    result = pool.apply_async(square, (2,), callback=lambda _: fail_at(1, 1))
    assert result.get() == 4
    assert "ValueError: not 1" in capsys.readouterr().err
    assert result.successful()


def test_timeouts(pool: Pool, directory: Path) -> None:
    result = pool.apply_async(touch_and_wait, (directory, "begun", "go"))
    with pytest.raises(mp.TimeoutError):
        result.get(0.01)
    values = pool.imap(functools.partial(touch_and_wait, directory), ["one"], chunksize=1)
    with pytest.raises(ValueError, match="not ready"):
        result.successful()
    (directory / "go").touch()
    assert result.get() == "begun"
    with pytest.raises(TypeError, match="until"):
        next(values)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"processes": 0}, ValueError, "at least 1"),
        ({"processes": "many"}, ConfigError, "cannot be 'many'"),
        ({"processes": 1, "initializer": 5}, TypeError, "must be a callable"),
        ({"processes": 1, "maxtasksperchild": 0}, ValueError, "maxtasksperchild"),
        ({"processes": 1, "maxtasksperchild": "12"}, ValueError, "maxtasksperchild"),
        ({"processes": 1, "max_retries": -1}, ConfigError, "max_retries cannot be -1"),
    ],
)
def test_bad_arguments(cluster: Cluster, arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        mp.Pool(**arguments)


def test_bad_chunks_are_answered_as_by_the_library(pool: Pool) -> None:
    with pytest.raises(ValueError, match=r"1\+"):
        pool.imap(square, [1], 0)
    with pytest.raises(ValueError, match=r"1\+"):
        pool.imap_unordered(square, [1], -1)
    assert pool.map(square, [1, 2], 0) == [None, None]
    calls: list[Callable[..., object]] = [pool.map, pool.starmap, pool.map_async, pool.imap]
    for call in calls:
        for size in ("3", 1.5):
            with pytest.raises(TypeError):
                call(square, [1, 2], size)
    assert not pool._cache  # else `join` would wait for them


def test_a_pool_cannot_be_pickled(pool: Pool) -> None:
    with pytest.raises(NotImplementedError):
        pool.__reduce__()


# ---- who runs what ------------------------------------------------------------------------------------------


def test_few_long_items_use_every_worker(pool: Pool, directory: Path) -> None:
    def meet(x: int) -> int:
        (directory / f"here {os.getpid()}").touch()
        wait_until(lambda: len(list(directory.glob("here *"))) == 3, 60)
        return x

    wait_until(lambda: len(pool._owner._ledger.hands) == 3, 30)
    assert pool.map(meet, range(3)) == [0, 1, 2]


def test_what_waits_behind_a_long_item_is_done_by_others(pool: Pool, directory: Path) -> None:
    def run(x: int) -> int:
        if x == 100:
            wait_until((directory / "go").exists, 60)
        return x

    pool.map(run, range(100))  # so that it is known to be quick
    results = [pool.apply_async(run, (x,)) for x in range(300)]
    others = [result for number, result in enumerate(results) if number != 100]
    assert [result.get(60) for result in others] == [x for x in range(300) if x != 100]
    assert not results[100].ready()
    (directory / "go").touch()
    assert results[100].get() == 100


def test_quick_values_do_not_wait_for_a_long_item_behind_them(pool: Pool, directory: Path) -> None:
    def run(x: int) -> int:
        if x == 250:
            wait_until((directory / "go").exists, 60)
        return x

    pool.map(run, range(200))
    seen = pool.imap_unordered(run, range(500))
    assert {next(seen) for _ in range(499)} == set(range(500)) - {250}
    (directory / "go").touch()
    assert next(seen) == 250


def test_imap_reads_no_further_ahead_than_its_window(pool: Pool) -> None:
    asked: list[int] = []

    def source() -> Iterator[int]:
        for number in range(1_000_000):
            asked.append(number)
            yield number

    values = pool.imap(square, source())
    assert [next(values) for _ in range(3)] == [0, 1, 4]
    for _ in range(5000):
        next(values)
    assert len(asked) <= 5003 + 1001
    pool.abandon(values)
    assert len(list(values)) <= 1001


def test_a_pool_that_is_closed_finishes_what_nobody_has_fetched(cluster: Cluster) -> None:
    made = mp.Pool(2)
    values, listed = made.imap(square, iter(range(3000))), made.imap_unordered(square, range(3000))
    made.close()
    made.join()
    assert sum(values) == sum(listed) == sum(x * x for x in range(3000))
    assert not made._pool


# ---- its workers --------------------------------------------------------------------------------------------


def test_initializers(cluster: Cluster) -> None:
    def begin(number: int) -> None:
        os.environ["FIBERNB_TEST_NUMBER"] = str(number)

    with mp.Pool(2, begin, (7,)) as made:
        assert made.map(os.getenv, ["FIBERNB_TEST_NUMBER"] * 10) == ["7"] * 10


def test_an_initializer_that_fails_breaks_the_pool(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    with mp.Pool(2, fail_at, (1, 1)) as made:
        with pytest.raises(ValueError, match="not 1"):
            made.map(square, range(10))
        with pytest.raises(ValueError, match="not 1"):
            made.apply(square, (1,))
        with pytest.raises(ValueError, match="not 1"):
            next(made.imap(square, [1]))


def test_tasks_per_child(cluster: Cluster) -> None:
    with mp.Pool(2, maxtasksperchild=3) as made:
        assert len(set(made.map(pid, range(12), chunksize=1))) >= 4
        assert len(set(made.map(pid, range(400)))) <= 6, "a chunk is one task"
        results = [made.apply_async(square, (x,)) for x in range(20)]
        made.close()
        made.join()
    assert [result.get() for result in results] == [x * x for x in range(20)]


def test_resize(cluster: Cluster) -> None:
    with mp.Pool(2) as made:
        made.resize(4)
        wait_until(lambda: len(made._pool) == 4, 30)
        result = made.map_async(time.sleep, [0.002] * 200)
        made.resize(1)
        wait_until(lambda: len(made._pool) == 1, 30)
        assert result.get() == [None] * 200
        with pytest.raises(ValueError, match="at least 1"):
            made.resize(0)
    with pytest.raises(ValueError, match="not running"):
        made.resize(1)


def test_a_pool_grows_with_its_work(cluster: Cluster, directory: Path) -> None:
    with mp.Pool("1:3") as made:
        assert len(made._pool) == 1
        results = [made.apply_async(touch_and_wait, (directory, f"{n}", "go")) for n in range(8)]
        wait_until(lambda: len(list(directory.iterdir())) == 3, 60)
        assert len(made._pool) == 3
        (directory / "go").touch()
        assert [result.get() for result in results] == [f"{n}" for n in range(8)]


def test_a_pool_of_no_worker_grows_with_its_work(cluster: Cluster) -> None:
    with mp.Pool("0:2") as made:
        assert made._pool == []
        assert made.map(square, range(3)) == [0, 1, 4]


def test_what_a_function_needs_stays_with_its_pool(cluster: Cluster) -> None:
    @fnb.meta(cpu=0.25)
    def needy(x: int) -> int:
        return os.getpid()

    with mp.Pool(2) as made, mp.Pool(2) as other:
        before, others = set(made.map(pid, range(20))), set(other.map(pid, range(20)))
        needed = set(made.map(needy, range(20)))
        assert not needed & before
        assert made._owner.asking.current == {"cpu": 0.25}
        assert set(made.map(pid, range(20))) <= {process.pid for process in made._pool}
        assert not other._owner.asking.current
        assert others <= {process.pid for process in other._pool}


@fnb.meta(cpu=500)
def giant(x: int) -> int:
    return x


def test_what_needs_more_than_there_can_be_fails_at_once_and_alone(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = mp.Event()
    with mp.Pool(2) as made:
        before = made.map(pid, range(20))
        waiting = made.apply_async(gate.wait)
        rest = made.map_async(pid, range(20))
        with pytest.raises(TaskUnschedulable, match="500 cpus"):
            made.map(giant, range(3))
        with pytest.raises(TaskUnschedulable, match="500 cpus"):
            made.apply(giant, (1,))
        told: list[BaseException] = []
        refused = made.map_async(giant, range(3), error_callback=told.append)
        refused.wait()
        assert [type(error) for error in told] == [TaskUnschedulable]
        gate.set()
        assert waiting.get()
        assert len(rest.get()) == len(made.map(pid, range(20))) == len(before)
    assert "could not be started" not in capsys.readouterr().err


def test_a_pool_whose_workers_cannot_be_had_at_all(cluster: Cluster) -> None:
    needs.configure({"cpu_per_job": 500})
    try:
        with mp.Pool(2) as made:
            for _ in range(2):
                with pytest.raises(TaskUnschedulable, match="500 cpus"):
                    made.map(square, range(3))
    finally:
        needs.configure({})


def test_a_task_may_have_a_pool(cluster: Cluster) -> None:
    @fnb.remote
    def task() -> list[int]:
        with mp.Pool(2) as made:
            values: list[int] = made.map(square, range(5))
            return values

    assert fnb.get(task.remote()) == [0, 1, 4, 9, 16]


# ---- interrupts ---------------------------------------------------------------------------------------------


def interrupt_when(condition: Callable[[], object]) -> threading.Thread:
    def interrupt() -> None:
        wait_until(condition, 60)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


@pytest.mark.parametrize("name", ["map", "apply", "map_async", "imap"])
def test_an_interrupt_while_a_call_is_submitted_stops_it(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(staff, "STOP_GRACE_S", 60.0)

    def run(_: object) -> None:
        try:
            (tmp_path / "begun").touch()
            time.sleep(60)
        except KeyboardInterrupt:
            (tmp_path / "stopped").touch()
            raise

    submit = pool._owner.submit

    def interrupted(*given: Any) -> None:
        submit(*given)
        wait_until((tmp_path / "begun").exists)
        raise KeyboardInterrupt

    calls: dict[str, Callable[[], object]] = {
        "map": lambda: pool.map(run, [1]),
        "apply": lambda: pool.apply(run, (1,)),
        "map_async": lambda: pool.map_async(run, [1]),
        "imap": lambda: pool.imap(run, [1]),
    }
    with monkeypatch.context() as patched:
        patched.setattr(pool._owner, "submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            calls[name]()
    wait_until((tmp_path / "stopped").exists, 30)
    assert pool.map(abs, [-1]) == [1]


def test_an_interrupt_stops_the_call_and_the_pool_goes_on(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staff, "STOP_GRACE_S", 60.0)

    def run(name: str) -> None:
        try:
            (tmp_path / f"{name} begun").touch()
            time.sleep(60)
        except KeyboardInterrupt:
            (tmp_path / f"{name} stopped").touch()
            raise

    calls: dict[str, Callable[[], object]] = {
        "map": lambda: pool.map(run, ["map"] * 10),
        "starmap": lambda: pool.starmap(run, [("starmap",)] * 10),
        "apply": lambda: pool.apply(run, ("apply",)),
        "imap": lambda: list(pool.imap(run, ["imap"] * 10)),
        "unordered": lambda: list(pool.imap_unordered(run, iter(["unordered"] * 10))),
    }
    workers = {process.pid for process in pool._pool}
    for name, call in calls.items():
        thread = interrupt_when((tmp_path / f"{name} begun").exists)
        with pytest.raises(KeyboardInterrupt):
            call()
        thread.join()
        wait_until((tmp_path / f"{name} stopped").exists, 30)
        assert pool.map(square, range(10)) == [x * x for x in range(10)]
    assert {process.pid for process in pool._pool} == workers


def test_a_worker_that_does_not_stop_is_replaced(cluster: Cluster, tmp_path: Path) -> None:
    def run() -> None:
        (tmp_path / "begun").touch()
        while True:
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                continue

    with mp.Pool(1) as made:
        thread = interrupt_when((tmp_path / "begun").exists)
        with pytest.raises(KeyboardInterrupt):
            made.apply(run)
        thread.join()
        assert made.apply(square, (3,)) == 9


# ---- its end ------------------------------------------------------------------------------------------------


def test_states(cluster: Cluster) -> None:
    made = mp.Pool(2)
    assert repr(made) == "<fibernb.multiprocessing.pool.Pool state=RUN pool_size=2>"
    with pytest.raises(ValueError, match="still running"):
        made.join()
    made.close()
    with pytest.raises(ValueError, match="not running"):
        made.apply(square, (1,))
    made.join()
    with pytest.raises(ValueError, match="not running"):
        made.__enter__()
    assert repr(made) == "<fibernb.multiprocessing.pool.Pool state=CLOSE pool_size=0>"
    made.terminate()


def test_terminate_answers_what_has_no_value(cluster: Cluster, directory: Path) -> None:
    made = mp.Pool(1)
    told: list[object] = []
    result = made.apply_async(touch_and_wait, (directory, "begun", "go"), error_callback=told.append)
    values = made.imap(square, iter(range(5000)))
    wait_until((directory / "begun").exists)
    made.terminate()
    made.join()
    with pytest.raises(TaskCancelled, match="terminated"):
        result.get()
    with pytest.raises(TaskCancelled, match="terminated"):
        list(values)
    assert told == []


def test_a_callback_may_end_the_pool(cluster: Cluster) -> None:
    made = mp.Pool(1)
    ended = threading.Event()

    def end(_: object) -> None:
        made.terminate()
        ended.set()

    made.apply_async(square, (1,), callback=end)
    assert ended.wait(30)
    made.join()


def test_a_pool_that_nobody_has_any_more_ends(cluster: Cluster) -> None:
    made = mp.Pool(1)
    (process,) = made._pool
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del made
        gc.collect()
    process.join(30)
    assert process.exitcode is not None


def test_a_script_may_leave_its_pool_open(place: Place) -> None:
    done = place.run(
        """
        from fibernb.multiprocessing import Pool

        def square(x):
            return x * x

        pool = Pool(2)
        print(pool.map(square, range(4)))
        """
    )
    assert (done.returncode, done.stdout) == (0, "[0, 1, 4, 9]\n"), done.stderr


def test_a_pool_of_threads_is_the_librarys() -> None:
    assert ThreadPool is multiprocessing.pool.ThreadPool
    with ThreadPool(2) as threads:
        assert threads.map(square, [1, 2]) == [1, 4]


def test_the_library_knows_our_pools(pool: Pool) -> None:
    assert isinstance(pool, multiprocessing.pool.Pool)
    assert sys.modules["fibernb.multiprocessing.pool"].__all__


def test_an_item_that_kills_its_workers_is_answered(cluster: Cluster) -> None:
    def run(x: int) -> int:
        if x == 13:
            os._exit(3)
        return x

    with mp.Pool(2, max_retries=1) as made:
        with pytest.raises(WorkerDied, match="died 2 times while it ran item 13") as caught:
            made.map(run, range(30))
        assert caught.value.exit_code == 3
        good = [result.get() for result in [made.apply_async(run, (x,)) for x in range(13)]]
    assert good == list(range(13))
