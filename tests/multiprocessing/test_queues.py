"""Queues between processes, some of which are killed."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from multiprocessing import util
from typing import Any

import numpy as np
import pytest

import fibernb as fnb
from fibernb import multiprocessing as mp
from fibernb.multiprocessing.queues import Empty, Full, JoinableQueue, Queue, SimpleQueue
from tests.multiprocessing.conftest import wait_until

pytestmark = pytest.mark.usefixtures("cluster")


class Unpicklable:
    def __reduce__(self) -> Any:
        raise AttributeError("not this one")


def put_many(queue: Any, name: int, count: int) -> None:
    for number in range(count):
        queue.put((name, number))


def put_arrays(queue: Any, count: int) -> None:
    for number in range(count):
        queue.put(np.full(50_000, number))


def get_until_none(source: Any, target: Any) -> None:
    while (item := source.get()) is not None:
        target.put((os.getpid(), item))


def take_and_hang(queue: Any, ready: Any) -> None:
    ready.put(os.getpid())
    while True:
        queue.get()


@pytest.mark.parametrize("kind", [Queue, JoinableQueue, SimpleQueue])
def test_many_processes_put_and_one_gets_each_in_order(kind: Any) -> None:
    queue = kind()
    children = [mp.Process(target=put_many, args=(queue, name, 1000)) for name in range(3)]
    for child in children:
        child.start()
    last = dict.fromkeys(range(3), -1)
    for _ in range(3000):
        name, number = queue.get()
        assert number == last[name] + 1
        last[name] = number
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert queue.empty()


@pytest.mark.parametrize("kind", [Queue, SimpleQueue])
def test_one_puts_and_many_get_each_item_once(kind: Any) -> None:
    source, target = kind(), kind()
    children = [mp.Process(target=get_until_none, args=(source, target)) for _ in range(3)]
    for child in children:
        child.start()
    count = 2000
    sender = threading.Thread(target=lambda: [source.put(item) for item in [*range(count), None, None, None]])
    sender.start()
    got = [target.get()[1] for _ in range(count)]
    assert sorted(got) == list(range(count))
    sender.join()
    for child in children:
        child.join()


def test_large_items_and_what_waits_is_sent_before_a_process_ends() -> None:
    queue = Queue()
    child = mp.Process(target=put_arrays, args=(queue, 300))
    child.start()
    wait_until(lambda: queue.qsize() == 300)
    for number in range(300):
        array = queue.get()
        assert array.flags.writeable
        assert (array == number).all()
    child.join()


def test_an_item_is_as_it_was_when_it_was_put() -> None:
    queue, item = Queue(), [0]
    for number in range(1000):
        item[0] = number
        queue.put(item)
    assert [queue.get()[0] for _ in range(1000)] == list(range(1000))


@pytest.mark.parametrize("kind", [Queue, SimpleQueue])
def test_a_default_timeout_of_sockets_is_not_theirs(kind: Any) -> None:
    socket.setdefaulttimeout(0.01)
    try:
        queue, (first, second) = kind(), mp.Pipe()
        child = mp.Process(target=_answer_late, args=(queue, second))
        child.start()
        assert queue.get() == "queue"
        assert first.recv() == "pipe"
        child.join()
    finally:
        socket.setdefaulttimeout(None)


def _answer_late(queue: Any, end: Any) -> None:
    time.sleep(0.1)
    queue.put("queue")
    time.sleep(0.1)
    end.send("pipe")


def test_limits_and_times() -> None:
    queue = Queue(2)
    with pytest.raises(Empty):
        queue.get(timeout=0.01)
    with pytest.raises(Empty):
        queue.get_nowait()
    queue.put(1)
    queue.put_nowait(2)
    assert queue.full()
    assert queue.qsize() == 2
    with pytest.raises(Full):
        queue.put(3, timeout=0.01)
    with pytest.raises(Full):
        queue.put_nowait(3)
    assert [queue.get(timeout=60), queue.get(False)] == [1, 2]
    assert queue.empty()


def test_what_cannot_be_pickled_is_reported_and_takes_no_place(capsys: pytest.CaptureFixture[str]) -> None:
    queue = Queue(1)
    queue.put(Unpicklable())
    assert "not this one" in capsys.readouterr().err
    queue.put("next", timeout=60)
    assert queue.get() == "next"
    with pytest.raises(AttributeError, match="not this one"):
        SimpleQueue().put(Unpicklable())


def test_a_queue_that_is_closed_takes_and_gives_nothing() -> None:
    queue = Queue()
    queue.close()
    assert queue.empty(), "as with the library: it was not used yet"
    queue = Queue()
    queue.put(1)
    queue.close()
    queue.close()
    queue.join_thread()
    assert queue._reader.closed
    with pytest.raises(ValueError, match="is closed"):
        queue.put(1)
    with pytest.raises(ValueError, match="is closed"):
        queue.get()


def test_what_waits_is_sent_after_closing() -> None:
    queue, sink = Queue(), Queue()
    child = mp.Process(target=get_until_none, args=(queue, sink))
    for item in [*range(2000), None]:
        queue.put(item)
    child.start()
    queue.close()
    queue.join_thread()
    assert queue._reader.closed
    assert [sink.get()[1] for _ in range(2000)] == list(range(2000))
    child.join()


def test_without_readers_the_error_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    queue = Queue(1)
    queue._reader.close()
    queue.put(1)
    assert "BrokenPipeError" in capsys.readouterr().err
    assert queue.qsize() == 0
    queue._ignore_epipe = True
    queue.put(1)
    assert not capsys.readouterr().err


def test_join_waits_for_what_is_done() -> None:
    queue, done = JoinableQueue(), Queue()
    child = mp.Process(target=_do, args=(queue, done))
    child.start()
    for number in range(20):
        queue.put(number)
    queue.join()
    assert done.qsize() == 20
    queue.put(None)
    child.join()
    with pytest.raises(ValueError, match="called too many times"):
        queue.task_done()


def _do(queue: Any, done: Any) -> None:
    while (item := queue.get()) is not None:
        done.put(item)
        queue.task_done()
    queue.task_done()


def test_readers_that_are_killed_take_no_others_with_them() -> None:
    queue, ready, target = Queue(), Queue(), Queue()
    victims = [mp.Process(target=take_and_hang, args=(queue, ready)) for _ in range(2)]
    survivor = mp.Process(target=get_until_none, args=(queue, target))
    for child in [*victims, survivor]:
        child.start()
    for _ in victims:
        ready.get()
    for number in range(200):
        queue.put(number)
        if number in (50, 100):
            os.kill(victims[number // 50 - 1].pid or 0, signal.SIGKILL)
    for child in victims:
        child.join()
    queue.put("after")
    queue.put(None)
    survivor.join()
    items = [target.get()[1] for _ in range(target.qsize())]
    assert items[-1] == "after"
    assert max(Counter(items).values()) == 1


def test_a_writer_that_is_killed_leaves_whole_items() -> None:
    queue = Queue()
    child = mp.Process(target=put_arrays, args=(queue, 1_000_000))
    child.start()
    for number in range(20):
        assert (queue.get() == number).all()
    child.kill()
    child.join()
    queue.put("mine")
    while not isinstance(item := queue.get(), str):
        assert len(set(item.tolist())) == 1
    assert item == "mine"


def test_queues_travel_in_queues_and_tasks() -> None:
    outer = SimpleQueue()

    @fnb.remote
    def answer(through: Any) -> None:
        through.get().put("hello")

    done = answer.remote(outer)
    inner = Queue()
    outer.put(inner)
    assert inner.get(timeout=60) == "hello"
    assert fnb.get(done) is None


def test_a_forked_child_has_a_buffer_of_its_own() -> None:
    queue = Queue()
    for number in range(1000):
        queue.put(number)  # more than fits, so that a thread sends it
    pid = os.fork()
    if not pid:
        util._run_after_forkers()  # type: ignore[attr-defined]  # as the library's processes do
        os._exit(len(queue._buffer))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert [queue.get() for _ in range(1000)] == list(range(1000))
