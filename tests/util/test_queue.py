from __future__ import annotations

import asyncio
import queue

import pytest

from fibernb.client.session import Session
from fibernb.core import messages as m
from fibernb.errors import ConfigError
from fibernb.util import Empty, Full, Queue
from fibernb.util.queue import WAITERS, QueueItems
from tests.client.fake_hub import FakeHub


def test_items_wait_for_each_other() -> None:
    async def play() -> None:
        items = QueueItems(2)
        await items.put(1)
        await items.put_nowait(2)
        assert await items.full()
        with pytest.raises(Full, match=r"within 0\.01 s"):
            await items.put(3, 0.01)
        with pytest.raises(queue.Full, match="0 more"):
            await items.put_nowait(3)
        assert [await items.get(), await items.get_nowait()] == [1, 2]
        assert await items.empty()
        with pytest.raises(Empty, match=r"within 0\.01 s"):
            await items.get(0.01)
        with pytest.raises(queue.Empty, match="holds 0"):
            await items.get_nowait()
        waiting = asyncio.create_task(items.get())
        await items.put(4, None)
        assert await waiting == 4
        with pytest.raises(Full, match="3 items"):
            await items.put_nowait_batch([1, 2, 3])
        assert await items.qsize() == 0, "all or none"
        await items.put_nowait_batch([1, 2])
        with pytest.raises(Empty):
            await items.get_nowait_batch(3)
        assert await items.get_nowait_batch(2) == [1, 2]

    asyncio.run(play())


def test_its_actor(session: Session, hub: FakeHub) -> None:
    Queue(5, actor_options={"num_cpus": 1, "name": "line"})
    (created,) = hub.of(m.CreateActor)
    assert (created.options.name, created.options.resources.milli_cpus) == ("line", 1000)
    assert (created.options.max_concurrency, created.options.is_async) == (WAITERS, True)


def test_mistakes(session: Session, hub: FakeHub) -> None:
    line = Queue()
    with pytest.raises(ConfigError, match="timeout cannot be -1"):
        line.put(1, timeout=-1)
    with pytest.raises(ConfigError, match="timeout cannot be -1"):
        line.get(timeout=-1)
    with pytest.raises(TypeError, match="iterated"):
        line.put_nowait_batch(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="number of items"):
        line.get_nowait_batch("3")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="num_items"):
        line.get_nowait_batch(-1)
    line.shutdown(force=True)
    line.shutdown()
    with pytest.raises(ConfigError, match="shut down"):
        line.size()
    session.settle()
    assert len(hub.of(m.KillActor)) == 1
