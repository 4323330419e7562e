"""Locks and their kin between processes, some of which are killed."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import warnings
from multiprocessing import synchronize as library
from typing import Any

import pytest

import fibernb as fnb
import fibernb.multiprocessing as multiprocessing
from fibernb import serialize
from fibernb.errors import ClusterError
from fibernb.multiprocessing import naming, places
from fibernb.multiprocessing.synchronize import Condition
from fibernb.store import names
from tests.multiprocessing.conftest import wait_until

pytestmark = pytest.mark.usefixtures("cluster")


def sent(value: Any) -> Any:
    """What arrives when a value is sent, here to this very process."""
    return serialize.loads(serialize.dumps(value))


def own_names() -> set[str]:
    prefix = places.cluster_prefix() + naming.owner()
    return {entry.name for entry in names.semaphore_files(prefix)}


# ---- they travel ----------------------------------------------------------------------------------------


def test_they_are_the_librarys() -> None:
    assert isinstance(multiprocessing.Lock(), library.Lock)
    assert isinstance(multiprocessing.RLock(), library.RLock)
    assert isinstance(multiprocessing.Semaphore(), library.Semaphore)
    assert isinstance(multiprocessing.BoundedSemaphore(), library.BoundedSemaphore)
    assert isinstance(multiprocessing.Condition(), library.Condition)
    assert isinstance(multiprocessing.Event(), library.Event)
    assert isinstance(multiprocessing.Barrier(2), library.Barrier)


def test_a_copy_that_was_sent_is_the_same_lock() -> None:
    lock = multiprocessing.Lock()
    copy = sent(lock)
    with copy:
        assert not lock.acquire(block=False)
        assert repr(lock) == "<Lock(owner=SomeOtherProcess)>"
    assert lock.acquire(block=False)


def test_they_travel_inside_of_values_to_tasks_and_back() -> None:
    event, semaphore = multiprocessing.Event(), multiprocessing.Semaphore(3)

    @fnb.remote
    def use(things: dict[str, Any]) -> Any:
        things["semaphore"].acquire()
        things["event"].set()
        return things["semaphore"]

    back = fnb.get(use.remote({"event": event, "semaphore": semaphore}))
    assert event.wait(60)
    assert semaphore.get_value() == back.get_value() == 2


def test_what_a_task_has_made_outlives_the_engine_that_made_it() -> None:
    class Maker:
        def make(self) -> Any:
            return os.getpid(), multiprocessing.Lock()

    maker = fnb.remote(Maker).remote()
    pid, lock = fnb.get(maker.make.remote())
    os.kill(pid, signal.SIGKILL)
    with sent(lock):
        assert not lock.acquire(block=False)


def test_a_lock_of_another_host_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    data = serialize.dumps(multiprocessing.Lock())
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    with pytest.raises(ClusterError, match="cannot be used on host elsewhere"):
        serialize.loads(data)


def test_a_lock_that_nobody_has_any_more_is_not_found() -> None:
    lock = multiprocessing.Lock()
    data = serialize.dumps(lock)
    names.unlink_semaphore(lock.name)
    with pytest.raises(FileNotFoundError, match="lock or semaphore has gone"):
        serialize.loads(data)


def test_where_the_system_shows_no_semaphores_they_travel_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SHARED_MEMORY", "/nowhere")
    lock = multiprocessing.Lock()
    copy = sent(lock)
    with copy:
        assert not lock.acquire(block=False)
    del copy
    gc.collect()
    assert sent(lock).acquire(block=False)


# ---- a holder dies --------------------------------------------------------------------------------------


def hold_and_die(lock: Any, times: int, ready: Any, go: Any) -> None:
    for _ in range(times):
        lock.acquire()
    ready.set()
    go.wait()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("kind", "times"), [("Lock", 1), ("RLock", 3)])
def test_the_lock_of_a_killed_holder_is_given_back_with_a_warning(kind: str, times: int) -> None:
    lock = getattr(multiprocessing, kind)()
    ready, go = multiprocessing.Event(), multiprocessing.Event()
    holder = multiprocessing.Process(target=hold_and_die, args=(lock, times, ready, go), name="Reader")
    holder.start()
    assert ready.wait(60)
    assert not lock.acquire(block=False)
    go.set()
    with pytest.warns(RuntimeWarning, match=rf"Reader \(pid {holder.pid}\) died holding this lock") as caught:
        assert lock.acquire(timeout=60)
    assert caught[0].filename == __file__
    lock.release()
    with lock:  # once is enough
        pass
    holder.join()


def test_where_warnings_are_errors_the_lock_is_free_again() -> None:
    lock = multiprocessing.Lock()
    ready, go = multiprocessing.Event(), multiprocessing.Event()
    holder = multiprocessing.Process(target=hold_and_die, args=(lock, 1, ready, go))
    holder.start()
    assert ready.wait(60)
    go.set()
    with pytest.raises(RuntimeWarning, match="died holding"):
        lock.acquire(timeout=60)
    assert lock.acquire(block=False)
    holder.join()


def test_processes_that_wait_for_a_killed_holder_go_on() -> None:
    lock, counter = multiprocessing.Lock(), multiprocessing.Value("i", 0)
    ready, go = multiprocessing.Event(), multiprocessing.Event()

    def count(lock: Any, counter: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with lock:
                counter.value += 1

    holder = multiprocessing.Process(target=hold_and_die, args=(lock, 1, ready, go))
    holder.start()
    assert ready.wait(60)
    waiting = [multiprocessing.Process(target=count, args=(lock, counter)) for _ in range(3)]
    for process in waiting:
        process.start()
    go.set()
    for process in [holder, *waiting]:
        process.join(60)
    assert [process.exitcode for process in waiting] == [0, 0, 0]
    assert counter.value == 3


def test_a_lock_that_was_handed_on_stays_with_its_taker() -> None:
    """Any process may release a Lock: then who had taken it does not hold it any more, and may die."""
    lock = multiprocessing.Lock()
    ready, go = multiprocessing.Event(), multiprocessing.Event()
    holder = multiprocessing.Process(target=hold_and_die, args=(lock, 1, ready, go))
    holder.start()
    assert ready.wait(60)
    lock.release()
    assert lock.acquire(block=False)
    go.set()
    holder.join()
    assert not sent(lock).acquire(timeout=0.5)


def test_repeated_kills_at_any_moment_never_lose_a_lock() -> None:
    lock, rounds = multiprocessing.Lock(), 12

    def take_and_give(lock: Any, busy: Any) -> None:
        warnings.simplefilter("ignore")
        busy.set()
        while True:
            with lock:
                pass

    for _ in range(rounds):
        busy = multiprocessing.Event()
        process = multiprocessing.Process(target=take_and_give, args=(lock, busy))
        process.start()
        assert busy.wait(60)
        process.kill()
        process.join()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert lock.acquire(timeout=60)
        lock.release()


def test_who_sets_an_event_does_not_wait_for_killed_waiters() -> None:
    event, queue = multiprocessing.Event(), multiprocessing.SimpleQueue()

    def wait(event: Any, queue: Any) -> None:
        queue.put("waits")
        event.wait()
        queue.put("woken")

    processes = [multiprocessing.Process(target=wait, args=(event, queue)) for _ in range(4)]
    for process in processes:
        process.start()
    assert [queue.get() for _ in processes] == ["waits"] * 4
    wait_until(lambda: event._cond._sleeping_count.get_value() == 4)
    for process in processes[:3]:
        process.kill()
        process.join()
    event.set()
    assert queue.get() == "woken"
    processes[3].join()
    event.clear()
    event.set()
    assert repr(event._cond).endswith(", 0)>")


# ---- conditions and barriers ----------------------------------------------------------------------------


def test_a_barrier_between_processes() -> None:
    barrier, queue = multiprocessing.Barrier(3), multiprocessing.SimpleQueue()

    def meet(barrier: Any, queue: Any) -> None:
        for _ in range(3):
            barrier.wait()
        queue.put(barrier.n_waiting)

    processes = [multiprocessing.Process(target=meet, args=(barrier, queue)) for _ in range(2)]
    for process in processes:
        process.start()
    meet(barrier, queue)
    for process in processes:
        process.join()
    assert [queue.get() for _ in range(3)] == [0, 0, 0]


def test_a_wait_without_the_lock_is_an_error() -> None:
    with pytest.raises(AssertionError, match="must acquire"):
        multiprocessing.Condition().wait()


def test_conditions_of_one_lock_have_sleepers_of_their_own() -> None:
    lock = multiprocessing.Lock()
    first, second = Condition(lock), Condition(lock)
    woken: list[str] = []

    def wait(condition: Condition, name: str) -> None:
        with condition:
            condition.wait()
            woken.append(name)

    threads = [threading.Thread(target=wait, args=pair) for pair in ((first, "first"), (second, "second"))]
    for thread in threads:
        thread.start()
    wait_until(lambda: first._sleeping_count.get_value() == second._sleeping_count.get_value() == 1)
    with second:
        second.notify()
    threads[1].join()
    assert woken == ["second"]
    with first:
        first.notify_all()
    threads[0].join()


# ---- nothing stays --------------------------------------------------------------------------------------


@pytest.fixture
def before() -> set[str]:
    gc.collect()
    return own_names()


def test_a_lock_that_was_not_sent_leaves_nothing(before: set[str]) -> None:
    event = multiprocessing.Event()
    assert own_names() > before
    del event
    gc.collect()
    assert own_names() == before


def test_the_name_of_a_lock_that_was_sent_stays_a_while(before: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    data = serialize.dumps(multiprocessing.Lock())
    gc.collect()
    copy = serialize.loads(data)
    assert copy.acquire(block=False)
    del copy
    gc.collect()
    monkeypatch.setattr(time, "monotonic", lambda: 1e12)
    multiprocessing.Lock()  # who makes a name removes old ones
    gc.collect()
    assert own_names() <= before
    with pytest.raises(FileNotFoundError):
        serialize.loads(data)


def test_a_forked_child_takes_no_name_away() -> None:
    lock = multiprocessing.Lock()
    pid = os.fork()
    if pid == 0:
        lock._name.drop()
        os._exit(0)
    os.waitpid(pid, 0)
    with sent(lock):
        pass
