"""The hub and the store as real processes: blocks that are kept and freed, and the deaths of either."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from fibernb.core.messages import PutObjects, Release
from fibernb.model import COUNTER_BITS, BlockId, ObjectId, Result
from fibernb.serialize.frames import stored_frame
from fibernb.store.agent import StoreAgent
from fibernb.wire.storetalk import STORE_SOCKET
from tests.hub.live import Live, RawClient, is_running, live, processes, wait_until

MEGABYTE = 1_000_000


@pytest.fixture
def cluster() -> Iterator[Live]:
    with live() as made:
        made.client(client=9).scale(1)  # the node is there, and somebody stays attached
        yield made


@pytest.fixture
def agent(cluster: Live) -> Iterator[StoreAgent]:
    with closing(agent_of(cluster)) as made:
        yield made


def agent_of(cluster: Live) -> StoreAgent:
    return StoreAgent(str(cluster.directory), cluster.connection.key, "the test", 0)


def put(client: RawClient, agent: StoreAgent, number: int) -> tuple[ObjectId, BlockId]:
    """An object of a megabyte, held by the client."""
    buffers = [memoryview(bytes(MEGABYTE))]
    block, offsets = agent.write(buffers)
    object_id = client.first + number
    value = stored_frame(b"\x80\x05N.", block, offsets, buffers)
    client.tell(PutObjects(objects=[Result(object_id, value, blocks=(block,))]))
    return object_id, block


def blocks_are(agent: StoreAgent, count: int) -> None:
    wait_until(lambda: agent.describe().blocks == count, f"the store has {count} blocks")


def objects_are(client: RawClient, count: int) -> None:
    wait_until(lambda: client.status().objects == count, f"{count} objects are kept")


def store_process(cluster: Live, agent: StoreAgent) -> int:
    agent.describe()
    others = {cluster.connection.pid, os.getpid()}
    return next(pid for pid in processes(str(cluster.directory)) if pid not in others and listens(pid, cluster))


def listens(pid: int, cluster: Live) -> bool:
    """Whether a process serves the store: it is called so."""
    with open(f"/proc/{pid}/comm") as file:
        return "store" in file.read()


def test_nothing_starts_the_store_before_it_is_needed(cluster: Live) -> None:
    assert (cluster.directory / STORE_SOCKET).exists()
    assert not [pid for pid in processes(str(cluster.directory)) if listens(pid, cluster)]


def test_blocks_stay_as_long_as_somebody_holds_the_object(cluster: Live, agent: StoreAgent) -> None:
    client = cluster.client(client=7)
    first, _ = put(client, agent, 1)
    put(client, agent, 2)
    objects_are(client, 2)
    client.tell(Release(objects=[first]))
    blocks_are(agent, 1)
    assert client.status().objects == 1


def test_the_blocks_of_a_client_that_is_gone_are_freed(cluster: Live, agent: StoreAgent) -> None:
    client = cluster.client(client=7, lease_s=0.0)
    put(client, agent, 1)
    objects_are(client, 1)
    client.close()
    blocks_are(agent, 0)


def lose_store(cluster: Live, agent: StoreAgent) -> None:
    pid = store_process(cluster, agent)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid), "the store is dead")


def lose_hub(cluster: Live, _agent: StoreAgent) -> None:
    cluster.kill_hub()
    cluster.resume()


def test_after_its_death_another_store_serves(cluster: Live, agent: StoreAgent) -> None:
    client = cluster.client(client=7)
    _, before = put(client, agent, 1)
    objects_are(client, 1)
    lose_store(cluster, agent)
    object_id, after = put(client, agent, 2)
    assert after >> COUNTER_BITS != before >> COUNTER_BITS
    blocks_are(agent, 1)
    client.tell(Release(objects=[object_id]))
    blocks_are(agent, 0)


def test_a_hub_that_is_started_again_frees_what_nobody_holds_any_more() -> None:
    """Once the lease of clients that have not come back is over."""
    with live(lease_s=4.0) as cluster, closing(agent_of(cluster)) as agent:
        client = cluster.client(client=7)
        client.scale(1)
        put(client, agent, 1)
        _, kept = put(client, agent, 2)
        objects_are(client, 2)
        client.status()  # by now the store has been told, too: else the blocks would still be their writer's
        cluster.kill_hub()
        cluster.resume()
        again = cluster.client(client=7, resumes=True)
        assert again.recovered.fresh
        value = stored_frame(b"\x80\x05N.", kept, [0], [memoryview(bytes(MEGABYTE))])
        again.tell(PutObjects(objects=[Result(again.first + 2, value, blocks=(kept,))]))
        blocks_are(agent, 1)
        assert len(agent.map(kept)) >= MEGABYTE


@pytest.mark.parametrize("lose", [lose_store, lose_hub])
def test_nothing_is_left_whoever_was_killed(lose: Callable[[Live, StoreAgent], None]) -> None:
    with live(lease_s=3.0) as cluster:
        client = cluster.client(client=7, lease_s=0.0)
        client.scale(1)
        with closing(agent_of(cluster)) as own:
            put(client, own, 1)
            objects_are(client, 1)
            lose(cluster, own)
        client.close()
        cluster.wait_gone()
