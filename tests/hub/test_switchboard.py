"""Who hears what, and what becomes of peers that break the rules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fibernb import transport
from fibernb.core.messages import HubStops
from fibernb.errors import NotConnected, ProtocolError
from fibernb.hub.switchboard import Switchboard
from fibernb.transport import Link, Peer
from fibernb.wire import codec
from fibernb.wire.handshake import Refused

ADDRESS = "memory:switchboard"


class Room:
    """A switchboard whose strangers and hearers write down what they hear."""

    def __init__(self) -> None:
        self.strangers: list[tuple[Peer, bytes]] = []
        self.heard: list[bytes | None] = []
        self.board = Switchboard(transport.listen(ADDRESS), lambda peer, data: self.strangers.append((peer, data)))

    def meet(self, link: Link) -> Peer:
        """The peer number of a link that has just been dialled."""
        link.send(b"hello")
        self.turn()
        return self.strangers.pop()[0]

    def turn(self) -> None:
        self.board.turn(0.1)


@pytest.fixture
def room() -> Iterator[Room]:
    made = Room()
    yield made
    made.board.close()


def answer(link: Link) -> object:
    return codec.to_client.decode(link.receive(1.0)[0])


def gone(link: Link) -> bool:
    try:
        link.receive(0.2)
    except NotConnected:
        return True
    return False


def test_a_stranger_is_met_and_then_heard(room: Room) -> None:
    link = transport.dial(ADDRESS)
    peer = room.meet(link)
    room.board.admit(peer, room.heard.append)
    link.send(b"one")
    link.send(b"x" * (codec.MAX_HELLO_BYTES + 1))
    room.turn()
    link.close()
    room.turn()
    assert [len(data) if data is not None else None for data in room.heard] == [3, codec.MAX_HELLO_BYTES + 1, None]


def test_a_stranger_that_leaves_is_not_met(room: Room) -> None:
    transport.dial(ADDRESS).close()
    room.turn()
    assert room.strangers == []


def test_a_refused_peer_gets_its_answer_and_is_counted(room: Room) -> None:
    link = transport.dial(ADDRESS)
    room.board.refuse(room.meet(link), Refused(kind="auth", reason="no"))
    assert answer(link) == Refused(kind="auth", reason="no")
    assert gone(link)
    assert room.board.refused == 1


def test_a_peer_that_comes_too_late_gets_its_answer_and_is_not_counted(room: Room) -> None:
    link = transport.dial(ADDRESS)
    room.board.turn_away(room.meet(link), Refused(kind="taken", reason="no"))
    assert answer(link) == Refused(kind="taken", reason="no")
    assert gone(link)
    assert room.board.refused == 0


def test_an_oversized_hello_is_counted(room: Room) -> None:
    link = transport.dial(ADDRESS)
    link.send(b"x" * (codec.MAX_HELLO_BYTES + 1))
    room.turn()
    assert room.strangers == []
    assert room.board.refused == 1


def test_a_peer_that_breaks_the_protocol_is_refused_and_its_hearer_told(room: Room) -> None:
    def hears(data: bytes | None) -> None:
        room.heard.append(data)
        if data is not None:
            raise ProtocolError("nonsense")

    link = transport.dial(ADDRESS)
    room.board.admit(room.meet(link), hears)
    link.send(b"bad")
    link.send(b"more")
    room.turn()
    assert room.heard == [b"bad", None]
    assert answer(link) == Refused(kind="protocol", reason="nonsense")
    assert room.board.refused == 1


def test_what_a_dropped_peer_had_sent_is_not_heard(room: Room) -> None:
    link = transport.dial(ADDRESS)
    peer = room.meet(link)
    room.board.admit(peer, lambda data: room.board.drop(peer))
    link.send(b"one")
    link.send(b"two")
    room.turn()
    room.turn()
    assert room.strangers == []
    assert gone(link)


def test_nothing_happens_to_nobody(room: Room) -> None:
    room.board.send(None, HubStops(reason=""))
    room.board.drop(None)


def test_while_it_holds_only_the_privileged_are_heard(room: Room) -> None:
    first, second = transport.dial(ADDRESS), transport.dial(ADDRESS)
    room.board.hold()
    assert room.board.holds
    room.board.admit(room.meet(first), room.heard.append)
    room.board.admit(room.meet(second), room.heard.append, privileged=True)
    first.send(b"first")
    second.send(b"second")
    room.turn()
    room.turn()
    assert room.heard == [b"second"]
    room.board.release()
    assert room.heard == [b"second", b"first"]
    assert not room.board.holds


def test_a_postponed_stranger_is_met_at_the_release_with_all_that_it_said(room: Room) -> None:
    link = transport.dial(ADDRESS)
    room.board.hold()
    peer = room.meet(link)
    room.board.postpone(peer, b"hello")
    link.send(b"x" * (codec.MAX_HELLO_BYTES + 1))
    room.turn()
    assert room.strangers == []
    room.board.release()
    assert [(who, len(data)) for who, data in room.strangers] == [(peer, 5), (peer, codec.MAX_HELLO_BYTES + 1)]


def test_a_peer_that_cannot_be_told_what_it_must_hear_is_dropped(
    room: Room, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    link = transport.dial(ADDRESS)
    peer = room.meet(link)
    room.board.admit(peer, room.heard.append)
    monkeypatch.setattr(codec, "MAX_MESSAGE_BYTES", 100)
    room.board.send(peer, HubStops(reason="x" * 100))
    room.board.turn(None)
    assert room.heard == [None]
    assert "over the limit" in caplog.text
    assert gone(link)


def test_a_peer_that_has_gone_is_not_dropped_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    link = transport.dial(ADDRESS)
    peer = room.meet(link)
    room.board.admit(peer, room.heard.append)
    monkeypatch.setattr(codec, "MAX_MESSAGE_BYTES", 100)
    room.board.send(peer, HubStops(reason="x" * 100))
    link.close()
    room.turn()
    assert room.heard == [None]
