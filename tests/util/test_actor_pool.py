from __future__ import annotations

from typing import Any

import pytest

import fibernb as fnb
from fibernb.client.handles import ActorHandle
from fibernb.client.session import Session
from fibernb.errors import ConfigError
from fibernb.util import ActorPool
from tests.client.fake_hub import FakeHub


@fnb.remote
class WorkingActor:
    def double(self, x: int) -> int:
        if x < 0:
            raise ValueError(x)
        return 2 * x


Worker: Any = WorkingActor  # a type checker takes no notice of what decorates a class


def double(actor: ActorHandle, value: int) -> fnb.ObjectRef:
    ref: fnb.ObjectRef = actor.double.remote(value)
    return ref


@pytest.fixture
def pool(session: Session) -> ActorPool:
    return ActorPool([Worker.remote(), Worker.remote()])


def test_map(pool: ActorPool) -> None:
    assert list(pool.map(double, range(5))) == [0, 2, 4, 6, 8]
    assert sorted(pool.map_unordered(double, range(5))) == [0, 2, 4, 6, 8]
    pool.submit(double, 9)
    assert list(pool.map(double, [1])) == [2], "what was submitted before is dropped"
    assert pool.has_free()


def test_submissions_come_in_order_or_not(pool: ActorPool) -> None:
    for value in range(4):
        pool.submit(double, value)
    assert pool.has_next()
    assert not pool.has_free()
    assert pool.pop_idle() is None
    assert pool.get_next() == 0
    assert pool.get_next_unordered() in (2, 4)
    rest = {pool.get_next(), pool.get_next()}
    assert rest <= {2, 4, 6}
    assert len(rest) == 2
    assert not pool.has_next()
    for take in (pool.get_next, pool.get_next_unordered):
        with pytest.raises(StopIteration):
            take()


def test_an_error_leaves_the_actor_in_the_pool(pool: ActorPool) -> None:
    pool.submit(double, -1)
    pool.submit(double, 1)
    with pytest.raises(ValueError, match="-1"):
        pool.get_next()
    assert pool.get_next() == 2
    assert pool.pop_idle() is not None
    assert pool.pop_idle() is not None
    assert pool.pop_idle() is None


def test_a_value_that_is_late(pool: ActorPool, hub: FakeHub) -> None:
    hub.hold = True
    for value in range(3):
        pool.submit(double, value)
    with pytest.raises(TimeoutError, match="ask again"):
        pool.get_next(timeout=0.05)
    with pytest.raises(TimeoutError, match="ask again"):
        pool.get_next_unordered(timeout=0.05)
    with pytest.raises(TimeoutError, match="dropped"):
        pool.get_next(timeout=0.05, ignore_if_timedout=True)
    hub.release_held()
    assert [pool.get_next(), pool.get_next()] == [2, 4]


def test_actors_may_come_later(session: Session) -> None:
    pool = ActorPool([])
    pool.submit(double, 1)
    for take in (pool.get_next, pool.get_next_unordered):
        with pytest.raises(ConfigError, match="no actors"):
            take()
    actor = Worker.remote()
    pool.push(actor)
    with pytest.raises(ConfigError, match="in the pool already"):
        pool.push(actor)
    assert pool.get_next() == 2
    with pytest.raises(ConfigError, match="in the pool already"):
        pool.push(actor)


def test_what_gives_no_reference_leaves_the_actor_in_the_pool(pool: ActorPool) -> None:
    def fail(actor: ActorHandle, value: int) -> fnb.ObjectRef:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        pool.submit(fail, 1)
    assert pool.has_free()
