"""The object store under a real node: started when it is called, started again, ended with the node."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fibernb.config import Config
from fibernb.engine import store_child
from fibernb.engine.store_child import StoreChild
from fibernb.errors import ConfigError
from fibernb.serialize import BlockGone
from fibernb.store import link as store_link
from fibernb.store.agent import StoreAgent
from fibernb.store.link import connect
from fibernb.wire.handshake import MemoryShort, StoreEnded
from tests.engine.conftest import NodeProcess, is_alive

VALUE = memoryview(bytes(range(256)) * 1000)


def wait_for(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def agent_of(node: NodeProcess) -> StoreAgent:
    node.hub.wait(lambda: node.hub.node_hello is not None)
    return StoreAgent(node.directory, "key", "a test", 1000)


def store_pid(node: NodeProcess) -> int:
    """The child of the node that is called fibernb-store; 0 when there is none."""
    children = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children").read_text().split()
    names = {int(pid): Path(f"/proc/{pid}/comm").read_text().strip() for pid in children}
    return next((pid for pid, name in names.items() if name == "fibernb-store"), 0)


def test_it_starts_with_the_first_call_and_serves_engines(node: NodeProcess) -> None:
    node.hub.fork([0])
    assert store_pid(node) == 0
    agent = agent_of(node)
    block, _ = agent.write([VALUE])
    pid = store_pid(node)
    assert pid

    def length_in_store(directory: str, block: int) -> int:
        from fibernb.store.agent import StoreAgent

        return len(StoreAgent(directory, "key", "rank 0", 1000).map(block))

    assert node.hub.call(0, length_in_store, str(node.directory), block) == len(VALUE)
    assert store_pid(node) == pid
    node.hub.fork([1])
    assert node.hub.call(1, len, "abc") == 3
    assert (node.directory / "logs" / "store.log").read_text() == ""
    agent.close()


def test_another_one_takes_the_place_of_one_that_died(node: NodeProcess) -> None:
    agent = agent_of(node)
    block, _ = agent.write([VALUE])
    view = agent.map(block)
    os.kill(store_pid(node), signal.SIGKILL)
    node.hub.wait(lambda: node.hub.told)
    assert node.hub.told == [StoreEnded(generation=block >> 40, reason="the object store was killed by signal 9")]
    new, _ = agent.write([VALUE])
    assert new >> 40 != block >> 40
    with pytest.raises(BlockGone):
        agent.map(block)
    assert view == VALUE
    assert agent.map(new) == VALUE
    agent.close()


def test_it_ends_with_the_node(node: NodeProcess) -> None:
    agent = agent_of(node)
    agent.write([VALUE])
    pid = store_pid(node)
    os.kill(node.process.pid, signal.SIGKILL)
    node.process.wait()
    wait_for(lambda: not is_alive(pid))
    agent.close()


def test_it_ends_in_order_too(node: NodeProcess) -> None:
    agent = agent_of(node)
    agent.write([VALUE])
    pid = store_pid(node)
    node.end()
    assert not is_alive(pid)
    agent.close()


def test_it_outlives_the_hub(node: NodeProcess) -> None:
    agent = agent_of(node)
    block, _ = agent.write([VALUE])
    pid = store_pid(node)
    assert node.hub.node is not None
    node.hub.listener.drop(node.hub.node)
    node.hub.node_hello = None
    node.hub.wait(lambda: node.hub.node_hello is not None)
    assert store_pid(node) == pid
    assert agent.map(block) == VALUE
    agent.close()


def test_a_store_that_cannot_be_opened_says_why() -> None:
    node = NodeProcess(Config(lease_s=20.0, preload=(), store_dir="/no/such/place"))
    try:
        with pytest.raises(ConfigError, match="store_dir is '/no/such/place', which cannot be used: No such file"):
            agent_of(node).write([VALUE])
        assert "the object store cannot be opened" in (node.directory / "logs" / "store.log").read_text()
    finally:
        node.end()


def test_memory_that_runs_short_is_reported_with_the_engines() -> None:
    node = NodeProcess(Config(lease_s=20.0, preload=(), memory_fraction=0.0))
    try:
        node.hub.fork([0, 1])
        node.hub.wait(lambda: node.hub.told)
        (short,) = node.hub.told[:1]
        assert isinstance(short, MemoryShort)
        assert 0 < short.used_bytes < short.limit_bytes
        wait_for(lambda: {one.engine for one in node.hub.told[-1].engines} == {0, 1} or node.hub.settle(0.1))  # type: ignore[union-attr,func-returns-value]
    finally:
        node.end()


def test_logs_of_engines_beside_the_seats(node: NodeProcess) -> None:
    node.hub.wait(lambda: node.hub.node_hello is not None)
    from fibernb.wire.handshake import Fork, Seat

    node.hub.tell_node(Fork(seats=[Seat(engine=4, rank=-2)]))
    node.hub.wait(lambda: 4 in node.hub.datas)
    node.hub.call(4, print, "hello")
    assert (node.directory / "logs" / "extra-2.log").read_text() == "hello\n"


# ---- the child alone ------------------------------------------------------------------------------------


@pytest.fixture
def child(tmp_path: Path) -> Iterator[StoreChild]:
    made = StoreChild(tmp_path, "key", Config())
    yield made
    made.end()
    assert not (tmp_path / "store.sock").exists()


def test_after_a_death_it_pauses(child: StoreChild) -> None:
    now = time.monotonic()
    assert child.watch_after_s(now) == 0.0
    child._pid = 2**22 + 1
    assert child.watch_after_s(now) is None
    assert child.ended(2**22 + 2, 0) is None
    assert child.ended(2**22 + 1, 70) == StoreEnded(generation=0, reason="the object store exited with code 70")
    after = child.watch_after_s(time.monotonic())
    assert after is not None
    assert 0.5 < after <= 1.0


def test_the_socket_of_a_store_that_is_just_dying_is_waited_for(
    tmp_path: Path, child: StoreChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    threading.Timer(0.2, child.end).start()
    second = StoreChild(tmp_path, "key", Config())
    monkeypatch.setattr(store_child, "PREDECESSOR_S", 0.05)
    with pytest.raises(ConfigError, match="a living listener is there"):
        StoreChild(tmp_path, "key", Config())
    second.end()


def test_when_the_system_does_not_let_it_fork_it_tries_later(
    child: StoreChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise OSError("no more processes")

    monkeypatch.setattr(os, "fork", refuse)
    child.start([])
    after = child.watch_after_s(time.monotonic())
    assert after is not None
    assert after > 0.5


def test_callers_wait_for_a_store_that_starts_later(
    tmp_path: Path, child: StoreChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_link, "ANSWER_S", 0.05)
    with pytest.raises(Exception, match="timed out"):
        connect(str(tmp_path), "key", "a test")
