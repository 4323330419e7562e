"""Agents with a real store process: writing, mapping, pins, spilling, deaths."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fibernb import serialize
from fibernb.config import Config
from fibernb.errors import AuthError, ConfigError, NotConnected, StoreFull
from fibernb.model import COUNTER_BITS
from fibernb.serialize import BlockGone
from fibernb.store import agent as agent_module
from fibernb.store import link as link_module
from fibernb.store.agent import StoreAgent, agent_for, drop_agent
from fibernb.store.link import StoreLink, connect
from fibernb.wire import codec
from fibernb.wire.storetalk import Free, Keep
from tests.store.serving import KEY, Served, serving

MB = 1_000_000
Make = Callable[..., StoreAgent]


def wait_for(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def hub_says(store: Served, message: Any) -> None:
    link = connect(store.directory, KEY, "hub")
    link._link.send(codec.encode(message))
    link.describe()  # everything has been taken in
    link.close()


def array(size_bytes: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 255, size_bytes, dtype="u1")


def test_what_one_process_writes_another_maps(served: Served, agents: Make) -> None:
    writer, reader = agents(served), agents(served)
    first, second = bytes(range(256)) * 10, b"x" * 12_345
    block, offsets = writer.write([memoryview(first), memoryview(second), memoryview(b"")])
    assert offsets == [0, 2560, 14_912]
    view = reader.map(block)
    assert view.readonly
    assert bytes(view[: len(first)]) == first
    assert bytes(view[offsets[1] : offsets[1] + len(second)]) == second


@pytest.mark.parametrize("size", [1000, 4096, 5 * MB, 30 * MB + 1])
def test_sizes(served: Served, agents: Make, size: int) -> None:
    agent = agents(served)
    value = array(size)
    for _ in range(3):
        block, offsets = agent.write([memoryview(value), memoryview(value[: size // 2])])
        view = agent.map(block)
        assert np.array_equal(np.frombuffer(view, "u1", size), value)
        assert np.array_equal(np.frombuffer(view, "u1", size // 2, offsets[1]), value[: size // 2])
        agent.abandon([block])
        del view


def test_nothing_is_copied_and_a_pin_goes_with_the_last_array(served: Served, agents: Make) -> None:
    agent = agents(served, "rank 3")
    packed = serialize.pack({"x": array(2 * MB), "y": array(MB)}, "v", agent)
    loaded = serialize.loads(packed.data, agent)
    again = serialize.loads(packed.data, agent)
    assert loaded["x"].__array_interface__["data"][0] == again["x"].__array_interface__["data"][0]
    assert not loaded["x"].flags.writeable
    part = loaded["y"][10:20]
    del loaded, again
    gc.collect()
    assert agent.describe().pinned["rank 3"] >= 3 * MB
    hub_says(served, Free(blocks=list(packed.blocks)))
    assert agent.describe().blocks == 1
    assert np.array_equal(part, array(MB)[10:20])
    del part
    wait_for(lambda: agent.describe().blocks == 0)


def test_what_is_needed_again_at_once_stays_pinned(
    served: Served, agents: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agents(served)
    value = array(MB)
    block, _ = agent.write([memoryview(value)])
    monkeypatch.setattr(link_module, "GATHER_S", 0.3)
    view = agent.map(block)
    asked: list[object] = []
    monkeypatch.setattr(StoreLink, "_ask", lambda _, message, kind: asked.append(message))
    for _ in range(10):
        del view
        view = agent.map(block)
    assert np.array_equal(np.frombuffer(view, "u1", MB), value)
    assert not asked
    monkeypatch.undo()
    assert sum(agent.describe().pinned.values()) == MB, "once, however often it was needed"
    del view
    wait_for(lambda: not agent.describe().pinned)


def test_private_memory_is_shared_until_it_is_written_to(served: Served, agents: Make) -> None:
    writer, reader, other = agents(served), agents(served, "reader"), agents(served, "other")
    odd, value = array(777), array(3 * MB)
    packed = serialize.pack({"first": odd, "second": value, "third": array(5000)}, "v", writer)
    loaded = serialize.loads(packed.data, reader.private)
    assert np.array_equal(loaded["second"], value)
    loaded["second"][:] = 1
    loaded["third"] += 1
    again, shared = serialize.loads(packed.data, reader.private), serialize.loads(packed.data, other)
    assert np.array_equal(loaded["second"], np.ones(3 * MB, "u1"))
    assert np.array_equal(again["second"], value)
    assert np.array_equal(shared["second"], value)
    assert np.array_equal(shared["third"], array(5000))
    assert not shared["second"].flags.writeable


def test_private_memory_is_pinned_while_it_is_used(served: Served, agents: Make) -> None:
    agent = agents(served, "reader")
    packed = serialize.pack(array(3 * MB), "v", agent)
    loaded = serialize.loads(packed.data, agent.private)
    assert agent.describe().pinned == {"reader": 3 * MB}
    hub_says(served, Free(blocks=list(packed.blocks)))
    part = loaded[MB : 2 * MB]
    del loaded
    gc.collect()
    assert agent.describe().pinned == {"reader": 3 * MB}
    for seed in range(20):  # more than fits, were it free
        serialize.pack(array(10 * MB, seed), "v", agent)
    assert np.array_equal(part, array(3 * MB)[MB : 2 * MB])
    del part
    wait_for(lambda: not agent.describe().pinned)


def test_private_memory_of_a_block_that_has_gone(served: Served, agents: Make) -> None:
    agent = agents(served)
    packed = serialize.pack(array(MB), "v", agent)
    hub_says(served, Free(blocks=list(packed.blocks)))
    with pytest.raises(BlockGone):
        serialize.loads(packed.data, agent.private)


def test_whether_a_store_is_still_the_one_that_was_written_to(served: Served, agents: Make) -> None:
    agent = agents(served)
    block, _ = agent.write([memoryview(b"x" * MB)])
    assert agent.outlives([block])
    assert not agent.outlives([block, block + (1 << COUNTER_BITS)])


def test_private_memory_takes_no_more_descriptors_when_it_goes(served: Served, agents: Make) -> None:
    agent = agents(served)
    packed = serialize.pack(array(MB), "v", agent)
    serialize.loads(packed.data, agent.private)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        serialize.loads(packed.data, agent.private)[0] = 1
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_more_than_fits_is_spilled_and_comes_back(served: Served, agents: Make) -> None:
    agent = agents(served)
    packed = [serialize.pack(array(10 * MB, seed), "v", agent) for seed in range(20)]
    described = agent.describe()
    assert described.used_bytes <= described.arena_bytes == 64 * 2**20
    assert described.spilled_bytes >= 130 * MB
    for seed, value in enumerate(packed):
        assert np.array_equal(serialize.loads(value.data, agent), array(10 * MB, seed))
    hub_says(served, Free(blocks=[block for value in packed for block in value.blocks]))
    wait_for(lambda: agent.describe().blocks == 0)
    described = agent.describe()
    assert (described.used_bytes, described.spilled_bytes) == (0, 0)


def test_spilled_values_take_no_more_of_the_disk_than_they_have_and_have_no_name(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    with serving(tmp_path, store_bytes=32 * 2**20, spill_dir=str(spill), spill_bytes=64 * 2**20) as store:
        agent = StoreAgent(store.directory, KEY, "a test", 1000)
        blocks = [agent.write([memoryview(array(10 * MB))])[0] for _ in range(8)]
        assert list(spill.iterdir()) == []
        files = [os.stat(path) for path in Path(f"/proc/{store.pid}/fd").iterdir() if str(spill) in os.readlink(path)]
        assert [status.st_blocks * 512 >= 50 * MB for status in files] == [True]
        blocks.append(agent.write([memoryview(array(10 * MB))])[0])
        with pytest.raises(StoreFull, match=r"there is no room for a value of 10\.0 MB .* are spilled to disk in"):
            agent.write([memoryview(array(10 * MB))])
        agent.abandon(blocks)
        path = next(p for p in Path(f"/proc/{store.pid}/fd").iterdir() if str(spill) in os.readlink(p))
        wait_for(lambda: os.stat(path).st_blocks == 0)
        agent.close()


def test_a_value_larger_than_everything(served: Served, agents: Make) -> None:
    agent = agents(served)
    with pytest.raises(StoreFull, match=r"a value of 70\.0 MB is larger than the whole object store") as caught:
        serialize.pack(np.zeros(70 * MB, "u1"), "v", agent)
    assert "as store_bytes says" in str(caught.value)
    assert isinstance(caught.value, MemoryError)


def test_arrays_in_use_are_named_when_there_is_no_room(tmp_path: Path) -> None:
    with serving(tmp_path, store_bytes=32 * 2**20, spill_bytes=0) as store:
        agent = StoreAgent(store.directory, KEY, "client 12ab", 1000)
        held = [agent.map(agent.write([memoryview(array(10 * MB))])[0]) for _ in range(3)]
        with pytest.raises(StoreFull, match=r"arrays that live in client 12ab: 30\.0 MB; nothing can be spilled"):
            agent.write([memoryview(array(10 * MB))])
        assert len(held) == 3
        agent.close()


def test_what_a_killed_process_had_written_and_pinned_goes(served: Served, agents: Make) -> None:
    script = f"""
import sys, time
from fibernb.store.agent import StoreAgent
agent = StoreAgent({served.directory!r}, {KEY!r}, "rank 9", 1000)
kept, mine = agent.write([memoryview(bytes(5_000_000))])[0], agent.write([memoryview(bytes(6_000_000))])[0]
view = agent.map(kept)
print(kept, mine, flush=True)
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    kept, mine = map(int, process.stdout.readline().split())
    agent = agents(served)
    hub_says(served, Keep(blocks=[kept]))
    assert agent.describe().pinned == {"rank 9": 5 * MB}
    process.kill()
    process.wait()
    process.stdout.close()
    wait_for(lambda: agent.describe().pinned == {})
    wait_for(lambda: agent.describe().blocks == 1)
    assert len(agent.map(kept)) == 5 * MB
    with pytest.raises(BlockGone, match=hex(mine)):
        agent.map(mine)


def test_a_store_that_dies_loses_its_blocks_and_not_its_arrays(served: Served, agents: Make) -> None:
    agent = agents(served)
    packed = serialize.pack(array(5 * MB), "v", agent)
    loaded = serialize.loads(packed.data, agent)
    served.start_again()
    with pytest.raises(BlockGone) as caught:
        agents(served).map(packed.blocks[0])
    assert caught.value.blocks == list(packed.blocks)
    assert np.array_equal(loaded, array(5 * MB))
    new = serialize.pack(array(5 * MB, 1), "v", agent)
    assert np.array_equal(serialize.loads(new.data, agent), array(5 * MB, 1))
    assert new.blocks[0] >> 40 != packed.blocks[0] >> 40
    del loaded


def test_a_block_of_a_new_store_is_found_by_who_knew_the_old_one(served: Served, agents: Make) -> None:
    agent, other = agents(served), agents(served)
    old, _ = agent.write([memoryview(bytes(1000))])
    served.start_again()
    new, _ = other.write([memoryview(b"x" * 1000)])
    assert bytes(agent.map(new)[:1]) == b"x"
    with pytest.raises(BlockGone):
        agent.map(old)


def test_a_store_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    agent = StoreAgent(tmp_path, KEY, "a test", 1000)
    made: list[Served] = []
    starter = threading.Timer(0.2, lambda: made.append(Served(tmp_path, Config(store_bytes=2**20))))
    starter.start()
    try:
        assert agent.describe().blocks == 0
    finally:
        agent.close()
        starter.join()
        made[0].close()


def test_memory_is_warmed_before_it_is_needed(served: Served, agents: Make) -> None:
    agents(served).prepare()
    wait_for(lambda: agents(served).describe().warm_bytes == 64 * 2**20)
    StoreAgent(served.directory, "a wrong key", "a test", 1000)._prepare(0.0)  # is told to who needs the store


def test_memory_is_not_warmed_for_those_who_have_left(served: Served) -> None:
    agent = StoreAgent(served.directory, KEY, "a test", 1000)
    agent.close()
    agent.prepare(60.0)
    wait_for(lambda: all(thread.name != "fibernb-store" for thread in threading.enumerate()))
    assert agent._link is None


def test_who_leaves_while_memory_is_warmed_leaves_no_link(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = StoreAgent(served.directory, KEY, "a test", 1000)
    describe = agent.describe

    def leave_and_describe() -> None:
        agent.close()
        describe()

    monkeypatch.setattr(agent, "describe", leave_and_describe)
    agent._prepare(0.0)
    assert agent._link is None


def test_without_a_cluster(tmp_path: Path) -> None:
    agent = StoreAgent(tmp_path / "gone", KEY, "a test", 1000)
    with pytest.raises(NotConnected, match=r"cannot connect to .*store\.sock"):
        agent.describe()
    agent.abandon([])  # needs none


def test_a_wrong_key_is_refused(served: Served) -> None:
    with pytest.raises(AuthError, match="the key is not that of this cluster"):
        StoreAgent(served.directory, "another", "a test", 1000).describe()


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with serving(tmp_path, spill_dir="/no/such/place") as store:
        for _ in range(2):
            with pytest.raises(ConfigError, match="spill_dir is '/no/such/place', which cannot be used"):
                StoreAgent(store.directory, KEY, "a test", 1000).describe()


def test_one_agent_a_process_and_cluster(tmp_path: Path, served: Served) -> None:
    agent = agent_for(served.directory, KEY, "a test", 1000)
    assert agent_for(tmp_path, KEY, "a test", 1000) is agent
    assert agent.inline_bytes == 1000
    assert agent_for(tmp_path / "other", KEY, "a test", 1000) is not agent
    agent.describe()
    drop_agent(tmp_path, KEY)
    assert agent_for(tmp_path, KEY, "a test", 1000) is not agent
    for path in (tmp_path, tmp_path / "other"):
        drop_agent(path, KEY)
        drop_agent(path, KEY)
    assert not agent_module._agents


def test_a_forked_child_has_a_link_of_its_own(served: Served) -> None:
    script = f"""
import os
from fibernb.store.agent import agent_for
agent = agent_for({served.directory!r}, {KEY!r}, "parent", 1000)
block, _ = agent.write([memoryview(b"abc" * 1000)])
view = agent.map(block)
agent._lock.acquire()  # as another thread of the parent may have
pid = os.fork()
if pid == 0:
    assert bytes(agent.map(block)[:3]) == b"abc"
    assert agent_for({served.directory!r}, {KEY!r}, "child", 1000) is not agent
    assert bytes(view[:3]) == b"abc"
    del view
    os._exit(3)
_, status = os.waitpid(pid, 0)
agent._lock.release()
assert os.waitstatus_to_exitcode(status) == 3
assert agent.describe().pinned == {{"parent": 3000}}, agent.describe()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


def test_arrays_outlive_the_agent(served: Served, agents: Make) -> None:
    leaving, staying = agents(served, "leaving"), agents(served)
    block, _ = leaving.write([memoryview(array(20 * MB))])
    hub_says(served, Keep(blocks=[block]))
    view = leaving.map(block)
    leaving.close()
    assert staying.describe().pinned == {"leaving": 20 * MB}
    for seed in range(5):
        staying.write([memoryview(array(20 * MB, seed + 1))])
    assert np.array_equal(np.frombuffer(view, "u1"), array(20 * MB))
    del view
    wait_for(lambda: staying.describe().pinned == {})


def test_threads_share_an_agent(served: Served, agents: Make) -> None:
    agent = agents(served)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for _ in range(10):
            packed = serialize.pack(array(MB, seed), "v", agent)
            if not np.array_equal(serialize.loads(packed.data, agent), array(MB, seed)):
                wrong.append(seed)
            agent.abandon(packed.blocks)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    wait_for(lambda: agent.describe().blocks == 0)


def test_an_interrupted_request_leaves_nothing_behind(served: Served) -> None:
    """Interrupts at random moments of writing and mapping, in the main thread of a process of its own."""
    script = f"""
import random, signal, sys, threading, time
from fibernb.store.agent import StoreAgent
agent = StoreAgent({served.directory!r}, {KEY!r}, "a test", 1000)
kept = agent.write([memoryview(bytes(range(256)) * 4000)])[0]
data = memoryview(bytes(9_000_000))
ends = time.monotonic() + 3
blocks, interrupts = [], 0
while time.monotonic() < ends:
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.006))
            blocks.append(agent.write([data])[0])
            assert bytes(agent.map(kept)[256:512]) == bytes(range(256))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:  # wherever it came: there is one at most
        interrupts += 1
    agent.abandon(blocks)
    blocks = []
assert interrupts > 20, interrupts
deadline = time.monotonic() + 10
while agent.describe().pinned and time.monotonic() < deadline:
    time.sleep(0.05)
print(agent.describe().pinned, interrupts)
assert agent.describe().pinned == {{}}
"""
    prelude = "import signal\nsignal.signal(signal.SIGALRM, signal.default_int_handler)\n"
    subprocess.run([sys.executable, "-c", prelude + script], check=True, timeout=60)


def test_one_array_for_many_processes_exists_once(tmp_path: Path) -> None:
    script = """
import sys
from fibernb import serialize
from fibernb.store.agent import StoreAgent
agent = StoreAgent(sys.argv[1], sys.argv[2], "rank", 1000)
value = serialize.loads(bytes.fromhex(sys.argv[3]), agent)
assert int(value[::4096].sum()) == int(sys.argv[4])
lines = open("/proc/self/smaps_rollup").read().splitlines()
private = sum(int(l.split()[1]) for l in lines if l.startswith(("Private_Clean", "Private_Dirty")))
print(private, flush=True)
sys.stdin.read()
"""
    with serving(tmp_path, store_bytes=256 * 2**20, spill_bytes=0) as store:
        agent = StoreAgent(store.directory, KEY, "client", 1000)
        value = array(100 * MB)
        packed = serialize.pack(value, "v", agent)
        arguments = [store.directory, KEY, packed.data.hex(), str(int(value[::4096].sum()))]
        command = [sys.executable, "-c", script, *arguments]
        readers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(8)
        ]
        privates = [int(reader.stdout.readline()) for reader in readers if reader.stdout is not None]
        assert max(privates) < 60_000  # kB: the interpreter and numpy, and not the array
        described = agent.describe()
        assert described.used_bytes < 101 * MB
        for reader in readers:
            reader.communicate()
        agent.close()


def test_nothing_is_left_when_all_are_killed(tmp_path: Path) -> None:
    places = {"store_dir": tmp_path / "arena", "spill_dir": tmp_path / "spill"}
    for place in places.values():
        place.mkdir()
    settings: dict[str, Any] = {key: str(place) for key, place in places.items()}
    with serving(tmp_path, store_bytes=32 * 2**20, spill_bytes=128 * 2**20, **settings) as store:
        agent = StoreAgent(store.directory, KEY, "client", 1000)
        packed = [serialize.pack(array(10 * MB, seed), "v", agent) for seed in range(8)]
        assert np.array_equal(serialize.loads(packed[0].data, agent), array(10 * MB, 0))
        os.kill(store.pid, signal.SIGKILL)
        agent.close()
    assert all(list(place.iterdir()) == [] for place in places.values())
