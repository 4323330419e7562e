from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from fibernb.collectives.lanes import CALL, IN_FRAME, IN_SLOT, SLOT_BYTES, SLOTS, Inlet, LaneBroken, Outlet, slots_file


@pytest.fixture
def lane() -> Iterator[tuple[Outlet, Inlet]]:
    sending, receiving = socket.socketpair()
    descriptor = slots_file()
    outlet, inlet = Outlet(sending, descriptor), Inlet(receiving, descriptor)
    os.close(descriptor)
    yield outlet, inlet
    outlet.close()
    inlet.close()


def test_what_is_small_travels_in_the_socket(lane: tuple[Outlet, Inlet]) -> None:
    outlet, inlet = lane
    assert inlet.frame() is None
    outlet.send(CALL, b"barrier")
    outlet.send(IN_FRAME, memoryview(b"xyz"), hops=300, chunk=70_000)
    outlet.send(IN_FRAME, b"")
    outlet.flush()
    found = []
    while (frame := inlet.frame()) is not None:
        assert inlet.holds_frame
        assert inlet.frame() is frame
        found.append((frame.kind, frame.hops, frame.chunk, bytes(frame.content)))
        inlet.drop()
    assert not inlet.holds_frame
    assert found == [(CALL, 0, 0, b"barrier"), (IN_FRAME, 300, 70_000, b"xyz"), (IN_FRAME, 0, 0, b"")]


def test_what_the_socket_does_not_take_waits(lane: tuple[Outlet, Inlet]) -> None:
    outlet, inlet = lane
    content = os.urandom(3_000_000)
    outlet.send(IN_FRAME, content)
    outlet.flush()
    assert outlet.has_pending
    while (frame := inlet.frame()) is None:
        outlet.flush()
    assert bytes(frame.content) == content
    assert not outlet.has_pending


def test_slots_are_used_again_once_they_are_given_back(lane: tuple[Outlet, Inlet]) -> None:
    outlet, inlet = lane
    for number in range(2 * SLOTS + 1):
        assert outlet.free_slots(1)
        outlet.slot(4)[:] = number.to_bytes(4, "little")
        outlet.send_slot(1, number, 4)
        if number >= SLOTS - 1:  # all are in use
            assert outlet.free_slots(1) == 0
            frame = inlet.frame()
            assert frame is not None
            assert (frame.kind, frame.chunk) == (IN_SLOT, number - SLOTS + 1)
            assert bytes(frame.content) == frame.chunk.to_bytes(4, "little")
            inlet.drop()
    assert len(outlet.slot(SLOT_BYTES)) == SLOT_BYTES


def test_what_was_sent_arrives_though_the_sender_has_gone(lane: tuple[Outlet, Inlet]) -> None:
    outlet, inlet = lane
    outlet.slot(1)[:] = b"a"
    outlet.send_slot(1, 0, 1)
    outlet.send(IN_FRAME, b"b")
    outlet.flush()
    outlet.close()
    for content in (b"a", b"b"):
        frame = inlet.frame()
        assert frame is not None
        assert bytes(frame.content) == content
        inlet.drop()
    with pytest.raises(LaneBroken) as caught:
        inlet.frame()
    assert caught.value.side == -1


def test_a_receiver_that_has_gone(lane: tuple[Outlet, Inlet]) -> None:
    outlet, inlet = lane
    outlet.send(IN_FRAME, b"unread")
    outlet.flush()
    inlet.close()
    outlet.send(IN_FRAME, b"x")
    with pytest.raises(LaneBroken) as caught:
        outlet.flush()
    assert caught.value.side == 1
    with pytest.raises(LaneBroken):
        outlet.free_slots(SLOTS + 1)
