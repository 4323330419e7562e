"""``Manager()``: every type of the library's, from everywhere in a cluster."""

from __future__ import annotations

import pickle
import queue
import signal
import threading
from typing import Any

import pytest

import fibernb as fnb
import fibernb.multiprocessing as multiprocessing
from fibernb.multiprocessing.managers import SyncManager


class Point:
    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and other.x == self.x

    def __hash__(self) -> int:
        return hash(self.x)


def in_process(function: Any, *args: Any) -> None:
    """Call a function in a process, and see it end well."""
    process = multiprocessing.Process(target=function, args=args)
    process.start()
    process.join()
    assert process.exitcode == 0


def test_a_list(manager: SyncManager) -> None:
    numbers: Any = manager.list([3, 1])
    numbers.append(2)
    numbers += [5]
    numbers.sort()
    assert (list(numbers), numbers[1:3], len(numbers), 5 in numbers, str(numbers)) == (
        [1, 2, 3, 5],
        [2, 3],
        4,
        True,
        "[1, 2, 3, 5]",
    )


def test_a_dict(manager: SyncManager) -> None:
    found: Any = manager.dict(a=1)
    found["b"] = 2
    found.update(c=3)
    assert (found.pop("a"), dict(found), found.keys(), found.values()) == (1, {"b": 2, "c": 3}, ["b", "c"], [2, 3])
    assert list(found) == ["b", "c"]
    assert found.items() == [("b", 2), ("c", 3)]
    with pytest.raises(KeyError, match="nothing"):
        found["nothing"]


def test_queues(manager: SyncManager) -> None:
    plain, joinable = manager.Queue(1), manager.JoinableQueue()
    plain.put(Point(1))
    assert plain.full()
    assert plain.get() == Point(1)
    with pytest.raises(queue.Empty):
        plain.get_nowait()
    joinable.put(1)
    joinable.get()
    joinable.task_done()
    joinable.join()


def test_locks(manager: SyncManager) -> None:
    for lock in (manager.Lock(), manager.RLock(), manager.Semaphore(1), manager.BoundedSemaphore(1)):
        with lock:
            pass
        assert lock.acquire()
        lock.release()
    once = manager.Lock()
    once.acquire()
    assert not once.acquire(False)
    with pytest.raises(ValueError, match="released too many times"):
        manager.BoundedSemaphore(1).release()


def test_event_condition_and_barrier(manager: SyncManager) -> None:
    event, condition, barrier = manager.Event(), manager.Condition(), manager.Barrier(2)
    partner = threading.Thread(target=meet, args=(event, condition, barrier))
    with condition:
        partner.start()
        assert condition.wait(60)
    assert event.wait(60)
    barrier.wait()
    partner.join()
    assert (barrier.parties, barrier.broken) == (2, False)


def meet(event: Any, condition: Any, barrier: Any) -> None:
    with condition:
        condition.notify()
    event.set()
    barrier.wait()


def test_value_array_and_namespace(manager: SyncManager) -> None:
    any_manager: Any = manager
    value, array = any_manager.Value("i", 1), any_manager.Array("d", [1.0, 2.0])
    names = any_manager.Namespace(x=1)
    value.value += 1
    array[0] = 4.0
    names.y = names.x + 1
    assert (value.value, list(array), str(names)) == (2, [4.0, 2.0], "Namespace(x=1, y=2)")


def test_a_pool(manager: SyncManager) -> None:
    with manager.Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
        assert pool.apply_async(divmod, (7, 2)).get() == (3, 1)
        assert list(pool.imap(abs, [-3])) == [3]


def change(names: Any, numbers: Any, found: Any) -> None:
    names.x += 1
    names.y[0] += 1  # of a copy
    numbers[0] += 1
    numbers[1][0] += 1  # of a copy
    inner = numbers[2]
    inner[0] += 1
    numbers[2] = inner
    numbers[3][0] += 1  # of a managed list
    for key in found:
        found[key] = Point(key)


def check_changed(names: Any, numbers: Any, found: Any) -> None:
    assert (names.x, names.y) == (2, [1])
    assert (numbers[0], numbers[1], numbers[2], numbers[3][0]) == (2, [1], [2], 2)
    assert dict(found) == {7: Point(7)}


def shared(manager: Any) -> tuple[Any, Any, Any]:
    return manager.Namespace(x=1, y=[1]), manager.list([1, [1], [1], manager.list([1])]), manager.dict({7: None})


def test_a_process_changes_what_is_managed(manager: SyncManager) -> None:
    things = shared(manager)
    in_process(change, *things)
    check_changed(*things)


def test_a_task_changes_what_is_managed(manager: SyncManager) -> None:
    things = shared(manager)
    fnb.get(fnb.remote(change).remote(*things))
    check_changed(*things)


def test_a_cell_changes_what_is_managed(manager: SyncManager, cluster: Any) -> None:
    seen: Any = manager.list()
    cluster.ranks[:].push({"seen": seen})
    cluster.ranks[:].run("seen.append(rank)")
    assert sorted(seen) == [0, 1]


def test_a_proxy_travels_in_a_queue_and_in_a_proxy(manager: SyncManager) -> None:
    mail, inner, outer = manager.Queue(), manager.list([1]), manager.dict()
    mail.put(inner)
    outer["inner"] = inner
    received: Any = mail.get()
    received.append(2)
    outer["inner"].append(3)
    assert list(inner) == [1, 2, 3]


def test_what_is_given_away_at_once_is_still_there(manager: SyncManager) -> None:
    in_process(len, manager.list())
    assert fnb.get(fnb.remote(len).remote(manager.list([1, 2]))) == 2
    assert list(pickle.loads(pickle.dumps(manager.list([1])))) == [1]


def test_objects_go_with_their_last_proxy(cluster: object) -> None:
    with multiprocessing.Manager() as manager:
        numbers: Any = manager.list([1])
        copy = pickle.loads(pickle.dumps(numbers))
        assert manager._number_of_objects() == 1
        del numbers
        assert manager._number_of_objects() == 1
        del copy
        assert manager._number_of_objects() == 0


def test_a_process_gives_its_references_back(cluster: object) -> None:
    with multiprocessing.Manager() as manager:
        numbers = manager.list([1])
        in_process(len, numbers)
        del numbers
        assert manager._number_of_objects() == 0


def test_a_process_may_have_a_manager(cluster: object, manager: SyncManager) -> None:
    found: Any = manager.dict()
    in_process(use_own_manager, found)
    assert dict(found) == {"sum": 3}


def use_own_manager(found: Any) -> None:
    with multiprocessing.Manager() as own:
        numbers: Any = own.list([1])
        in_process(numbers.append, 2)
        found["sum"] = sum(numbers)


def test_the_type_of_an_exception_stays(manager: SyncManager) -> None:
    with pytest.raises(IndexError):
        manager.list()[0]
    with pytest.raises(ValueError, match="not in list"):
        manager.list([1]).remove(2)


# ---- callers that go while they wait -----------------------------------------------------------------------------


def wait_in(ready: Any, method: Any) -> None:
    ready.set()
    method()


def gone_while_waiting(manager: SyncManager, method: Any) -> None:
    """Have a process call a method that waits, and kill it."""
    ready = manager.Event()
    process = multiprocessing.Process(target=wait_in, args=(ready, method))
    process.start()
    ready.wait()
    process.kill()
    process.join()


def test_a_killed_consumer_takes_nothing(manager: SyncManager) -> None:
    mail = manager.Queue()
    for number in range(3):
        gone_while_waiting(manager, mail.get)
        mail.put(number)
        assert mail.get(timeout=60) == number


def test_a_killed_process_does_not_get_the_lock_it_waited_for(manager: SyncManager) -> None:
    for lock in (manager.Lock(), manager.RLock(), manager.Semaphore(1), manager.BoundedSemaphore(1)):
        lock.acquire()
        gone_while_waiting(manager, lock.acquire)
        lock.release()
        assert lock.acquire(timeout=60)


def wait_for_condition(ready: Any, condition: Any) -> None:
    with condition:
        ready.set()
        condition.wait()


def test_a_process_killed_in_a_condition_leaves_it_usable(manager: SyncManager) -> None:
    ready, condition = manager.Event(), manager.Condition()
    process = multiprocessing.Process(target=wait_for_condition, args=(ready, condition))
    process.start()
    ready.wait()
    with condition:  # from here on it waits
        condition.notify(0)
    process.kill()
    process.join()
    assert condition.acquire(timeout=60)
    condition.notify_all()
    condition.release()


def test_an_interrupted_consumer_takes_nothing(manager: SyncManager) -> None:
    mail, ready = manager.Queue(), threading.Event()
    partner = threading.Thread(target=interrupt_after, args=(ready,))
    partner.start()
    with pytest.raises(KeyboardInterrupt):
        get_in_vain(mail, ready)
    partner.join()
    mail.put("kept")
    assert mail.get(timeout=60) == "kept"


def get_in_vain(mail: Any, ready: threading.Event) -> None:
    mail.qsize()  # connects
    ready.set()
    mail.get()


def interrupt_after(ready: threading.Event) -> None:
    ready.wait()
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_a_full_queue_and_time_outs(manager: SyncManager) -> None:
    mail: Any = manager.Queue(1)
    mail.put(1, timeout=1)
    for arguments in ({"block": False}, {"timeout": 0}, {"timeout": 0.01}):
        with pytest.raises(queue.Full):
            mail.put(2, **arguments)
    assert mail.get(timeout=0) == 1
    with pytest.raises(queue.Empty):
        mail.get(timeout=0.01)
    with pytest.raises(ValueError, match="non-negative"):
        mail.get(timeout=-1)
    lock = manager.Lock()
    assert lock.acquire()
    assert not lock.acquire(timeout=0.01)
    assert not manager.Event().wait(0.01)
    with pytest.raises(RuntimeError):
        manager.Condition().wait(0.01)  # its lock is not held
