"""Tasks on real engines."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fibernb as fnb
from fibernb.client.cluster import Cluster
from fibernb.client.executor import Executor
from fibernb.client.functions import RemoteFunction
from fibernb.client.refs import ObjectRef
from fibernb.errors import (
    ClusterError,
    GetTimeout,
    RemoteTraceback,
    SerializationError,
    TaskCancelled,
    TaskError,
    TaskUnschedulable,
    WorkerDied,
)
from tests.integration.conftest import Place, interrupt_within, wait_until

pytestmark = pytest.mark.usefixtures("cluster")


def sleeping(pause_s: float, value: object) -> RemoteFunction:
    """A remote function that takes its time."""

    def sleep() -> object:
        time.sleep(pause_s)
        return value

    return RemoteFunction(sleep)


def waiting_for(path: Path) -> RemoteFunction:
    """A remote function that gives its argument when there is such a file."""

    def wait(value: object) -> object:
        while not path.exists():
            time.sleep(0.01)
        return value

    return RemoteFunction(wait)


def marking(pause_s: float) -> Callable[[str], None]:
    """A function that makes a file when it begins, and takes its time."""

    def mark(path: str) -> None:
        Path(path).touch()
        time.sleep(pause_s)

    return mark


def test_values_of_many_kinds() -> None:
    same = fnb.remote(lambda value: value)
    values = [None, 1, "text", b"bytes", [1, (2, {3})], {"a": [1.5]}, range(3), ValueError("x").args, int]
    assert fnb.get([same.remote(value) for value in values]) == values
    for array in (
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.ones((3, 2))),
        np.array(["2020-01-01"], "datetime64"),
    ):
        back = fnb.get(same.remote(array))
        np.testing.assert_array_equal(back, array)
        assert (back.dtype, back.flags.f_contiguous) == (array.dtype, array.flags.f_contiguous)
        back[...] = back.ravel()[0]
    big = np.random.default_rng(1).bytes(5_000_000)
    assert fnb.get(same.remote(big)) == big


def test_a_large_map_comes_back_in_order() -> None:
    square = fnb.remote(lambda x: x * x)
    assert fnb.get(square.map(range(20_000))) == [x * x for x in range(20_000)]


def test_classes_of_the_notebook_go_both_ways() -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

        def moved(self) -> Point:
            return Point(self.x + 1)

    class Failure(Exception):
        pass

    def fail() -> None:
        raise Failure("told")

    back = fnb.get(fnb.remote(lambda point: point.moved()).remote(Point(1)))
    assert isinstance(back, Point)
    assert back.x == 2
    with pytest.raises(Failure, match="told"):
        fnb.get(fnb.remote(fail).remote())


def test_an_exception_comes_with_its_remote_traceback() -> None:
    def deep(x: int) -> float:
        return 1 / x

    with pytest.raises(ZeroDivisionError) as caught:
        fnb.get(fnb.remote(deep).remote(0))
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "deep" in str(caught.value.__cause__)


def test_values_that_cannot_come_back_are_named() -> None:
    def lock() -> object:
        import threading

        return [1, threading.Lock()]

    with pytest.raises(SerializationError, match=r"\[1\]"):
        fnb.get(fnb.remote(lock).remote())
    with pytest.raises(SerializationError, match=r"args\[0\]"):
        fnb.remote(lambda lock: lock).remote(threading.Lock())


def test_dependencies() -> None:
    add = fnb.remote(lambda x, y: x + y)
    total = fnb.put(0)
    for x in range(50):
        total = add.remote(total, x)
    assert fnb.get(total) == 1225
    assert fnb.get(add.remote(total, y=total)) == 2450
    slow = sleeping(0.2, 5)
    assert fnb.get(add.remote(slow.remote(), slow.remote())) == 10


def test_a_failed_input_fails_what_depends_on_it() -> None:
    fail = fnb.remote(lambda: 1 / 0)
    later = fnb.remote(lambda x: x)
    ref = later.remote(later.remote(fail.remote()))
    with pytest.raises(ZeroDivisionError):
        fnb.get(ref)


def test_several_values() -> None:
    first, second, third = fnb.remote(num_returns=3)(lambda: (1, 2, 3)).remote()
    assert fnb.get([third, first, second]) == [3, 1, 2]
    with pytest.raises((ValueError, TypeError, TaskError)):
        fnb.get(fnb.remote(num_returns=2)(lambda: (1, 2, 3)).remote()[1])


def test_tasks_submit_tasks() -> None:
    leaf = fnb.remote(lambda x: x + 1)

    def branch(x: int) -> int:
        import fibernb

        value: int = fibernb.get(leaf.remote(x))
        return value * 10

    assert fnb.get(fnb.remote(branch).remote(1), timeout=60) == 20


@pytest.mark.parametrize("what", ["remote function", "executor"])
def test_a_fresh_engine_submits_before_it_uses_anything_else(cluster: Cluster, what: str) -> None:
    leaf = fnb.remote(lambda x: x + 1)

    def submit() -> ObjectRef:
        reference: ObjectRef = leaf.remote(1)
        return reference

    def map_all() -> list[int]:
        with Executor() as executor:
            return list(executor.map(abs, [-2]))

    cluster.restart()
    cluster.scale(2, timeout_s=60)
    if what == "executor":
        assert fnb.get(fnb.remote(map_all).remote(), timeout=60) == [2]
    else:
        assert fnb.get(fnb.get(fnb.remote(submit).remote(), timeout=60), timeout=60) == 2


def test_nested_references_stay_references_and_can_be_read() -> None:
    given, made = fnb.put(41), fnb.remote(lambda: 1).remote()

    def read(refs: list[fnb.ObjectRef]) -> tuple[str, int, list[fnb.ObjectRef]]:
        import fibernb

        return type(refs[0]).__name__, sum(fibernb.get(refs)), refs

    kind, total, refs = fnb.get(fnb.remote(read).remote([given, made]), timeout=60)
    assert (kind, total) == ("ObjectRef", 42)
    assert fnb.get(refs, timeout=60) == [41, 1]


def test_where_a_task_runs() -> None:
    def where() -> tuple[int, str | None]:
        import fibernb

        return fibernb.rank(), fibernb.get_runtime_context().get_task_id()

    ref = fnb.remote(where).remote()
    rank, task = fnb.get(ref)
    assert rank in (0, 1)
    assert task == ref.hex()
    with pytest.raises(ClusterError):
        fnb.rank()
    assert fnb.size() == 2
    assert fnb.get_runtime_context().get_task_id() is None


def test_resources() -> None:
    assert fnb.cluster_resources()["CPU"] == 2
    assert fnb.available_resources()["CPU"] <= 2
    assert fnb.nodes()[0]["Alive"]
    with pytest.raises(TaskUnschedulable):
        fnb.get(fnb.remote(num_gpus=1000)(lambda: 1).remote(), timeout=20)


# ---- deaths ---------------------------------------------------------------------------------------------


def test_an_engine_that_dies_says_how() -> None:
    def die() -> None:
        print("last words", flush=True)
        os._exit(3)

    with pytest.raises(WorkerDied) as caught:
        fnb.get(fnb.remote(max_retries=0)(die).remote(), timeout=60)
    assert caught.value.exit_code == 3
    assert "last words" in str(caught.value)
    with pytest.raises(WorkerDied) as caught:
        fnb.get(fnb.remote(max_retries=0)(lambda: os.kill(os.getpid(), signal.SIGSEGV)).remote(), timeout=60)
    assert caught.value.signal == signal.SIGSEGV


def test_a_task_is_tried_again_after_its_engine_died(tmp_path: Path) -> None:
    def die_at_first(directory: str) -> str:
        marker = Path(directory, "tried")
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "second time"

    assert fnb.get(fnb.remote(die_at_first).remote(str(tmp_path)), timeout=60) == "second time"


def test_retries_are_bounded(tmp_path: Path) -> None:
    def die(path: str) -> None:
        with open(path, "a") as file:
            file.write("x")
        os._exit(1)

    path = tmp_path / "tries"
    with pytest.raises(WorkerDied):
        fnb.get(fnb.remote(max_retries=1)(die).remote(str(path)), timeout=60)
    assert path.read_text() == "xx"


def test_exceptions_are_tried_again_only_if_asked(tmp_path: Path) -> None:
    def fail_at_first(path: str) -> int:
        with open(path, "a") as file:
            file.write("x")
        return 1 // (os.path.getsize(path) - 1)

    path = tmp_path / "tries"
    with pytest.raises(ZeroDivisionError):
        fnb.get(fnb.remote(fail_at_first).remote(str(path)), timeout=60)
    path.unlink()
    assert fnb.get(fnb.remote(retry_exceptions=True)(fail_at_first).remote(str(path)), timeout=60) == 1


# ---- stopping -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("force", [False, True])
def test_a_running_task_can_be_cancelled(tmp_path: Path, force: bool) -> None:
    started = tmp_path / "started"
    sleep = fnb.remote(marking(60))
    ref = sleep.remote(str(started))
    wait_until(started.exists)
    begun = time.monotonic()
    fnb.cancel(ref, force=force)
    with pytest.raises(TaskCancelled):
        fnb.get(ref, timeout=30)
    assert time.monotonic() - begun < 10
    assert fnb.get(fnb.remote(lambda: 1).remote(), timeout=60) == 1


def test_a_waiting_task_can_be_cancelled(tmp_path: Path) -> None:
    started = [tmp_path / "a", tmp_path / "b"]
    sleep = fnb.remote(marking(60))
    running = [sleep.remote(str(path)) for path in started]
    wait_until(lambda: all(path.exists() for path in started))
    marker = tmp_path / "never"
    ref = fnb.remote(lambda path: Path(path).touch()).remote(str(marker))
    fnb.cancel(ref)
    with pytest.raises(TaskCancelled):
        fnb.get(ref, timeout=30)
    for other in running:
        fnb.cancel(other)
    for other in running:
        with pytest.raises(TaskCancelled):
            fnb.get(other, timeout=30)
    assert not marker.exists()


def test_ctrl_c_in_get() -> None:
    ref = sleeping(0.5, 7).remote()
    long = sleeping(60, None).remote()
    begun = time.monotonic()
    interrupt_within("get")
    with pytest.raises(KeyboardInterrupt):
        fnb.get(long)
    assert time.monotonic() - begun < 5
    fnb.cancel(long)
    assert fnb.get(ref, timeout=60) == 7


# ---- ways to wait ---------------------------------------------------------------------------------------


def test_wait_and_timeouts(tmp_path: Path) -> None:
    quick, slow = fnb.remote(lambda: 1), waiting_for(tmp_path / "go on")
    refs = [slow.remote(2), quick.remote()]
    assert fnb.wait(refs) == ([refs[1]], [refs[0]])
    with pytest.raises(GetTimeout):
        fnb.get(refs[0], timeout=0.01)
    (tmp_path / "go on").touch()
    assert fnb.get(refs, timeout=60) == [2, 1]


def test_asyncio() -> None:
    double = fnb.remote(lambda x: 2 * x)

    async def one(x: int) -> int:
        value: int = await double.remote(x)
        return value

    async def main() -> list[int]:
        return await asyncio.gather(*map(one, range(200)))

    assert asyncio.run(main()) == [2 * x for x in range(200)]


def test_threads() -> None:
    double = fnb.remote(lambda x: 2 * x)

    def work(base: int) -> list[int]:
        return [fnb.get(double.remote(base + offset)) for offset in range(30)]

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, range(6))) == [[2 * (base + offset) for offset in range(30)] for base in range(6)]


def test_executor() -> None:
    with fnb.Executor() as pool:
        assert list(pool.map(pow, range(1000), [2] * 1000)) == [x * x for x in range(1000)]
        futures = [pool.submit(divmod, x, 7) for x in range(100)]
        assert [future.result() for future in futures] == [divmod(x, 7) for x in range(100)]
        assert {future.result() for future in concurrent.futures.as_completed(futures)}


def test_an_executors_running_future_cannot_be_cancelled(tmp_path: Path) -> None:
    pool = fnb.Executor()
    paths = [tmp_path / name for name in "ab"]
    go_on = tmp_path / "go on"

    def mark_and_wait(path: Path) -> None:
        path.touch()
        wait_until(go_on.exists, 60)

    running = [pool.submit(mark_and_wait, path) for path in paths]
    wait_until(lambda: all(path.exists() for path in paths))
    waiting = pool.submit(time.sleep, 0)
    assert running[0].running()
    assert not running[0].cancel()
    assert not waiting.running()
    assert waiting.cancel()
    go_on.touch()
    pool.shutdown()
    assert all(future.done() and not future.cancelled() for future in running)


def test_output_of_tasks_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    fnb.get(fnb.remote(lambda: print("from afar")).remote())
    wait_until(lambda: "from afar" in capfd.readouterr().out)


def test_a_waiting_task_on_the_only_seat_lends_it(cluster: Cluster) -> None:
    @fnb.remote
    def tree(depth: int) -> int:
        import fibernb

        return 1 if not depth else sum(fibernb.get([tree.remote(depth - 1), tree.remote(depth - 1)]))

    cluster.scale(1)
    wait_until(lambda: len(cluster.status().engines) == 1)
    try:
        assert fnb.get(tree.remote(4), timeout=60) == 16
    finally:
        cluster.scale(2)


def test_the_queue_of_one_client_does_not_hold_up_another(cluster: Cluster, place: Place) -> None:
    @fnb.remote
    def brief(number: int) -> int:
        time.sleep(0.001)
        return number

    refs = brief.map(range(30_000))
    done = place.run(
        """
        import sys
        import fibernb as fnb

        fnb.connect(sys.argv[1])
        print(fnb.get(fnb.remote(abs).remote(-3), timeout=60))
        """,
        cluster.name,
    )
    left = fnb.wait(refs, num_returns=len(refs), timeout=0)[1]
    cluster.session.cancel(left)
    assert (done.stdout, done.stderr) == ("3\n", "")
    assert len(left) > len(refs) / 3


def test_what_a_task_forks_can_be_terminated(cluster: Cluster) -> None:
    """Also just after the fork, when Python clears the signals that it was about to handle."""

    def use_pools() -> int:
        context = multiprocessing.get_context("fork")
        total = 0
        for _ in range(15):
            with warnings.catch_warnings(), context.Pool(2) as pool:
                total += sum(pool.map(abs, range(10)))
        return total

    assert fnb.get([fnb.remote(use_pools).remote() for _ in range(4)], timeout=60) == [15 * 45] * 4
    assert fnb.get(fnb.remote(lambda: signal.getsignal(signal.SIGTERM)).remote()) is signal.SIG_DFL
