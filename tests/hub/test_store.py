"""What the hub tells the store of its host: in order, without waiting, and across the store's death."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fibernb.core.commands import FreeBlocks, KeepBlocks, RetainBlocks
from fibernb.core.events import EngineMemory, MemoryLow, StoreLost
from fibernb.core.messages import Message
from fibernb.hub import store as hub_store
from fibernb.hub.store import FIRST_DELAY_S, MAX_DELAY_S
from fibernb.transport.framing import FrameError, Inbox
from fibernb.wire import codec, credentials
from fibernb.wire.codec import Reader
from fibernb.wire.handshake import MemoryShort, StoreEnded
from fibernb.wire.storetalk import Free, Keep, Retain, StoreHello, StoreRequest
from tests.hub.fakes import KEY, Room

READER: Reader[StoreHello | StoreRequest] = Reader(StoreHello | StoreRequest)


def block(counter: int, generation: int = 1) -> int:
    return (generation << 40) + counter


class FakeStore:
    """Listens where the hub dials, and hears one link at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.links: list[socket.socket] = []
        self.listening = self._listen()

    def _listen(self) -> socket.socket:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self.path))
        listening.listen()
        listening.settimeout(0.5)
        return listening

    def accept(self) -> None:
        link, _ = self.listening.accept()
        link.settimeout(0.5)
        self.links.append(link)
        self.inbox = Inbox(2**20, memoryview(bytearray(2**16)))

    def hear(self, count: int) -> list[Message]:
        """So many messages, the hello of a new link first."""
        if not self.links:
            self.accept()
        heard: list[Message] = []
        while len(heard) < count:
            self.inbox.read(self.links[-1])
            heard += map(READER.decode, self.inbox.take())
        return heard

    def hears_nothing(self) -> bool:
        try:
            if not self.links:
                self.listening.settimeout(0.05)
                self.accept()
            self.links[-1].settimeout(0.05)
            self.inbox.read(self.links[-1])
        except TimeoutError:
            return True
        except FrameError:
            return False
        return False

    def die(self, *, path_too: bool = False) -> None:
        for link in self.links:
            link.close()
        self.links.clear()
        if path_too:
            self.listening.close()
            self.path.unlink()

    def close(self) -> None:
        self.die()
        self.listening.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FakeStore]:
    made = FakeStore(tmp_path / "store.sock")
    yield made
    made.close()


@pytest.fixture
def room(store: FakeStore) -> Iterator[Room]:
    made = Room(store.path)
    made.hub.begin()
    made.node()
    made.heard()
    yield made
    made.process.end = made.process.end or "ended by the test"
    made.hub.end(0.0)


def hello() -> StoreHello:
    return StoreHello(credentials=credentials(KEY), pid=os.getpid(), owner="hub")


def test_a_hub_that_has_nothing_to_say_does_not_start_the_store(room: Room, store: FakeStore) -> None:
    room.order()
    assert store.hears_nothing()


def test_blocks_are_kept_and_freed_in_the_order_of_the_scheduler(room: Room, store: FakeStore) -> None:
    room.order(KeepBlocks(blocks=[block(1), block(2)]), FreeBlocks(blocks=[block(1)]), KeepBlocks(blocks=[block(3)]))
    assert store.hear(4) == [
        hello(),
        Keep(blocks=[block(1), block(2)]),
        Free(blocks=[block(1)]),
        Keep(blocks=[block(3)]),
    ]
    room.order(RetainBlocks(blocks=[]))
    assert store.hear(1) == [Retain(blocks=[])]


def test_long_lists_travel_in_parts(room: Room, store: FakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_store, "MAX_PART", 2)
    room.order(FreeBlocks(blocks=[block(n) for n in (1, 2, 3)]))
    assert store.hear(3)[1:] == [Free(blocks=[block(1), block(2)]), Free(blocks=[block(3)])]


def test_what_is_to_be_said_is_kept_until_there_is_a_store(room: Room, tmp_path: Path, store: FakeStore) -> None:
    store.die(path_too=True)
    room.order(KeepBlocks(blocks=[block(1)]))
    room.order(KeepBlocks(blocks=[block(2)]))
    room.later(FIRST_DELAY_S)
    again = FakeStore(store.path)
    try:
        room.later(MAX_DELAY_S)
        assert again.hear(3) == [hello(), Keep(blocks=[block(1)]), Keep(blocks=[block(2)])]
    finally:
        again.close()


def test_a_store_that_reads_slowly_does_not_hold_the_hub(room: Room, store: FakeStore) -> None:
    many = [block(n) for n in range(20_000)]
    for _ in range(10):
        room.order(KeepBlocks(blocks=many))  # far more than fits into a socket
    room.order(FreeBlocks(blocks=[block(1)]))
    heard: list[Message] = store.hear(1)
    store.links[-1].settimeout(0.02)
    while len(heard) < 12:
        room.later(MAX_DELAY_S)
        try:
            store.inbox.read(store.links[-1])
        except TimeoutError:
            continue
        heard += map(READER.decode, store.inbox.take())
    assert heard == [hello(), *[Keep(blocks=many)] * 10, Free(blocks=[block(1)])]


def test_a_store_that_has_died_unnoticed_is_followed_by_the_next(room: Room, store: FakeStore) -> None:
    room.order(KeepBlocks(blocks=[block(1)]))
    store.hear(2)
    store.die()
    room.order(KeepBlocks(blocks=[block(2)]))
    room.later(FIRST_DELAY_S)
    assert store.hear(2) == [hello(), Keep(blocks=[block(2)])]


def test_what_a_store_says_is_passed_over(room: Room, store: FakeStore) -> None:
    room.order(KeepBlocks(blocks=[block(1)]))
    store.hear(2)
    store.links[-1].sendall(b"x" * 10_000)
    room.order(KeepBlocks(blocks=[block(2)]))
    assert store.hear(1) == [Keep(blocks=[block(2)])]


def test_the_end_of_a_store_is_reported_and_its_blocks_are_spoken_of_no_more(room: Room, store: FakeStore) -> None:
    room.order(KeepBlocks(blocks=[block(1)]))
    store.hear(2)
    room.nodes[0].send(StoreEnded(generation=1, reason="was killed"))
    assert room.heard() == [StoreLost(generation=1, reason="was killed")]
    store.die()
    room.order(FreeBlocks(blocks=[block(1)]))
    assert store.hears_nothing()
    store.listening.settimeout(0.5)
    room.order(KeepBlocks(blocks=[block(2), block(7, 2)]))
    assert store.hear(2) == [hello(), Keep(blocks=[block(7, 2)])]


def test_what_waits_to_be_said_about_a_dead_store_is_dropped(room: Room, store: FakeStore) -> None:
    store.die(path_too=True)
    room.order(KeepBlocks(blocks=[block(1)]), KeepBlocks(blocks=[block(1, 2)]))
    room.nodes[0].send(StoreEnded(generation=1, reason="was killed"))
    again = FakeStore(store.path)
    try:
        room.later(MAX_DELAY_S)
        assert again.hear(2) == [hello(), Keep(blocks=[block(1, 2)])]
    finally:
        again.close()


def test_with_the_node_goes_its_store(room: Room, store: FakeStore) -> None:
    room.order(KeepBlocks(blocks=[block(1)]), RetainBlocks(blocks=[block(1), block(9, 4)]))
    room.process.end = "was killed by signal 9"
    room.nodes[0].close()
    assert room.heard()[:2] == [
        StoreLost(generation=1, reason="its node process was killed by signal 9"),
        StoreLost(generation=4, reason="its node process was killed by signal 9"),
    ]


def test_a_shortage_of_memory_is_passed_on(room: Room) -> None:
    engines = [EngineMemory(engine=1, used_bytes=70)]
    room.nodes[0].send(MemoryShort(used_bytes=90, limit_bytes=100, engines=engines))
    assert room.heard() == [MemoryLow(node="here", used_bytes=90, limit_bytes=100, engines=engines)]


def test_nothing_is_said_after_the_end(room: Room, store: FakeStore) -> None:
    store.die(path_too=True)
    room.order(KeepBlocks(blocks=[block(1)]))
    room.process.end = "ended"
    room.hub.end(0.0)
    again = FakeStore(store.path)
    try:
        assert again.hears_nothing()
    finally:
        again.close()


def test_hellos_are_what_the_store_expects() -> None:
    assert READER.decode(codec.encode(hello())) == hello()
