from __future__ import annotations

import concurrent.futures
import gc
import time
import weakref

import pytest

import fibernb as fnb
from fibernb.client.session import Session
from fibernb.core import messages as m
from fibernb.errors import ConfigError
from tests.client.fake_hub import FakeHub
from tests.client.test_session import wait_until


def test_submit_and_map(session: Session) -> None:
    with fnb.Executor() as pool:
        assert pool.submit(pow, 2, 5).result(10) == 32
        assert pool.submit(int, "ff", base=16).result(10) == 255
        assert isinstance(pool.submit(int, "x").exception(10), ValueError)
        assert list(pool.map(pow, [1, 2, 3], [2, 2, 2])) == [1, 4, 9]
        assert list(pool.map(abs, range(-500, 0), chunksize=7)) == list(range(500, 0, -1))
        assert list(pool.map(abs, [])) == []
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(abs, 1)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.map(abs, [1])


def test_futures_are_those_of_the_standard_library(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    pool = fnb.Executor()
    futures = [pool.submit(abs, -x) for x in range(5)]
    done, waiting = concurrent.futures.wait(futures, timeout=0.01)
    assert (len(done), len(waiting)) == (0, 5)
    assert not futures[0].running()
    assert futures[0].cancel()
    assert futures[0].cancelled()
    hub.release_held()
    assert [future.result(10) for future in concurrent.futures.as_completed(futures[1:], 10)]
    pool.shutdown()


def test_map_is_lazy_and_cancels_what_is_left(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    values = fnb.Executor().map(abs, range(10), timeout=0.02)
    with pytest.raises(TimeoutError):
        next(values)
    wait_until(lambda: sum(len(message.tasks) for message in hub.of(m.Cancel)) == 10)


def test_max_workers_bounds_what_is_under_way(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    pool = fnb.Executor(max_workers=2)
    futures = [pool.submit(abs, -x) for x in range(6)]
    session.flush()
    assert sum(len(message.calls) for message in hub.of(m.Submit)) <= 2
    hub.release_held()
    assert [future.result(10) for future in futures] == list(range(6))
    assert list(pool.map(abs, range(-5, 0))) == [5, 4, 3, 2, 1]
    pool.shutdown()


def test_shutdown_can_cancel(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    pool = fnb.Executor(max_workers=2)
    futures = [pool.submit(abs, -x) for x in range(6)]
    pool.shutdown(cancel_futures=True)
    assert all(future.cancelled() for future in futures)


def test_shutdown_waits(session: Session, hub: FakeHub) -> None:
    pool = fnb.Executor()
    futures = [pool.submit(abs, -x) for x in range(6)]
    begun = time.monotonic()
    pool.shutdown()
    assert all(future.done() for future in futures)
    assert time.monotonic() - begun < 5


def test_what_cannot_be_submitted_comes_out_of_the_future(session: Session) -> None:
    import threading

    with fnb.Executor() as pool:
        assert isinstance(pool.submit(abs, threading.Lock()).exception(1), fnb.errors.SerializationError)


def test_arguments_are_checked(session: Session) -> None:
    for wrong in (0, -1, 1.5):
        with pytest.raises(ConfigError):
            fnb.Executor(max_workers=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        fnb.Executor(num_returns=2)
    with pytest.raises(ValueError, match="chunksize"):
        fnb.Executor().map(abs, [1], chunksize=0)


def test_util(session: Session) -> None:
    work = fnb.remote(abs)
    assert sorted(fnb.util.as_completed(work.map(range(-9, 0)))) == list(range(1, 10))
    assert sorted(fnb.util.map_unordered(work, range(-9, 0))) == list(range(1, 10))
    assert sorted(fnb.util.map_unordered(work, range(-9, 0), backpressure_size=2)) == list(range(1, 10))
    with pytest.raises(ConfigError):
        fnb.util.map_unordered(work, [], backpressure_size=0)


def test_as_completed_times_out(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    with pytest.raises(TimeoutError):
        next(fnb.util.as_completed([fnb.remote(abs).remote(1)], timeout=0.01))


def test_what_was_submitted_is_not_kept(session: Session) -> None:
    class Owner:
        def work(self) -> int:
            return 1

    owner = Owner()
    gone = weakref.ref(owner)
    pool = fnb.Executor()
    future = pool.submit(owner.work)
    assert future.result(10) == 1
    del owner
    gc.collect()
    assert gone() is None


def test_arguments_may_be_called_self_and_fn(session: Session) -> None:
    with fnb.Executor() as pool:
        assert pool.submit(dict, self=2, fn=3).result(10) == {"self": 2, "fn": 3}
