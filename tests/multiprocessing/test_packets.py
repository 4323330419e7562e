"""The pipe inside of a queue, by itself."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from fibernb.multiprocessing.packets import PACKET_BYTES, PacketConnection, packet_pipe


class Ends(NamedTuple):
    reading: PacketConnection
    writing: PacketConnection


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends(*packet_pipe())
    yield made
    made.reading.close()
    made.writing.close()


@pytest.mark.parametrize("size", [0, 1, 4096, PACKET_BYTES, PACKET_BYTES + 1, 5_000_000])
def test_messages_of_any_size_arrive_whole(ends: Ends, size: int) -> None:
    messages = [os.urandom(size), b"short", os.urandom(size)]
    before = len(os.listdir("/proc/self/fd"))
    for message in messages:
        assert ends.writing.send_packet(message, wait=False)
    assert [bytes(ends.reading.recv_packet()) for _ in messages] == messages
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("more", [0, PACKET_BYTES])
def test_a_full_pipe_takes_no_more_until_something_was_received(ends: Ends, more: int) -> None:
    sent = 0
    while ends.writing.send_packet(b"%d" % sent + b"." * more, wait=False):
        sent += 1
    assert sent > 100
    received = [bytes(ends.reading.recv_packet(wait=False)).rstrip(b".") for _ in range(sent)]
    assert received == [b"%d" % number for number in range(sent)]
    with pytest.raises(BlockingIOError):
        ends.reading.recv_packet(wait=False)


def test_too_many_descriptors_on_their_way_are_waited_for(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    answers = [OSError(errno.ETOOMANYREFS, "too many"), None]

    def send(_: int) -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    assert ends.writing._send_once(send, wait=True)
    assert len(pauses) == 1
    answers = [OSError(errno.ENOBUFS, "no room")]
    assert not ends.writing._send_once(send, wait=False)


def test_waiting_ends_in_time_and_with_a_message(ends: Ends) -> None:
    assert ends.reading.recv_within(0.01) is None
    assert ends.reading.recv_within(-1) is None
    thread = threading.Thread(target=lambda: ends.writing.send_packet(b"late"))
    thread.start()
    assert ends.reading.recv_within(60) == b"late"
    thread.join()


def test_each_message_goes_to_one_of_those_who_wait(ends: Ends) -> None:
    got: list[bytes | memoryview | None] = []
    count = 20
    threads = [threading.Thread(target=lambda: got.append(ends.reading.recv_within(60))) for _ in range(count)]
    for thread in threads:
        thread.start()
    for number in range(count):
        ends.writing.send_packet(b"%d" % number)
    for thread in threads:
        thread.join()
    assert sorted(map(bytes, filter(None, got))) == sorted(b"%d" % number for number in range(count))


def test_the_end_of_all_senders_comes_behind_what_they_sent(ends: Ends) -> None:
    ends.writing.send("last words")
    ends.writing.close()
    assert ends.reading.recv() == "last words"
    with pytest.raises(EOFError):
        ends.reading.recv()
    with pytest.raises(EOFError):
        ends.reading.recv_within(1)


def test_without_receivers_sending_fails(ends: Ends) -> None:
    ends.reading.close()
    with pytest.raises(BrokenPipeError):
        ends.writing.send(1)
    with pytest.raises(OSError, match="handle is closed"):
        ends.reading.recv()


def test_bytes_as_with_any_connection(ends: Ends) -> None:
    ends.writing.send_bytes(b"abcdef", 1, 3)
    assert ends.reading.poll(0)
    assert ends.reading.recv_bytes() == b"bcd"
    ends.writing.send_bytes(b"abc")
    buffer = bytearray(5)
    assert ends.reading.recv_bytes_into(buffer, 1) == 3
    assert bytes(buffer) == b"\0abc\0"
    ends.writing.send_bytes(b"abcdef")
    with pytest.raises(OSError, match="bad message length"):
        ends.reading.recv_bytes(3)


def test_large_messages_are_the_receivers_own_memory(ends: Ends) -> None:
    ends.writing.send_packet(bytes(PACKET_BYTES + 1))
    received = ends.reading.recv_packet()
    assert isinstance(received, memoryview)
    assert not received.readonly
