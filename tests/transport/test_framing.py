"""A stream, cut anywhere, comes out as the messages that went in."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fibernb.transport.framing import LARGE_BYTES, MARK, NO_WAIT, PREFIX, FrameError, Inbox, Outbox

MARK_BYTES = PREFIX.pack(MARK)[4:]
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def make_inbox(max_bytes: int = 2**20, scratch_bytes: int = 64 * 1024) -> Inbox:
    return Inbox(max_bytes, memoryview(bytearray(scratch_bytes)))


def frame(message: bytes) -> bytes:
    return PREFIX.pack(MARK | len(message)) + message


def read_all(inbox: Inbox, stream: socket.socket) -> list[bytes]:
    messages: list[bytes] = []
    while True:
        try:
            inbox.read(stream, NO_WAIT)
        except BlockingIOError:
            return messages
        messages += inbox.take()
        if inbox.ended:
            return messages


sizes = st.one_of(st.integers(0, 40), st.integers(LARGE_BYTES - 20, LARGE_BYTES + 20), st.integers(0, 40_000))


chopped = st.one_of(
    st.tuples(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 20)),
    st.tuples(st.lists(sizes, max_size=12), st.integers(5_000, 70_000)),
)


@settings(max_examples=50, deadline=None)
@given(chopped, st.integers(0, 2**32))
def test_however_the_stream_is_chopped(case: tuple[list[int], int], seed: int) -> None:
    lengths, longest = case
    chance = random.Random(seed)
    messages = [chance.randbytes(length) for length in lengths]
    stream = b"".join(map(frame, messages))
    inbox, got = make_inbox(), []
    here, there = socket.socketpair()
    with here, there:
        while stream:
            size = chance.randint(1, longest)
            here.sendall(stream[:size])
            stream = stream[size:]
            got += read_all(inbox, there)
        here.close()
        got += read_all(inbox, there)
    assert got == messages
    assert inbox.ended


@settings(max_examples=30, deadline=None)
@given(st.lists(sizes, max_size=20), st.integers(2_000, 200_000))
def test_however_little_is_sent_at_once(lengths: list[int], buffer_bytes: int) -> None:
    messages = [bytes([number]) * length for number, length in enumerate(lengths)]
    outbox, inbox, got = Outbox(), make_inbox(), []
    for message in messages:
        outbox.push(message)
    here, there = socket.socketpair()
    with here, there:
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        done = False
        while not done:
            try:
                done = outbox.write(here, NO_WAIT)
            except BlockingIOError:
                got += read_all(inbox, there)
        got += read_all(inbox, there)
    assert got == messages
    assert not outbox


@given(st.binary(min_size=PREFIX.size, max_size=64).filter(lambda data: data[4:8] != MARK_BYTES))
def test_what_has_no_mark_is_no_frame(data: bytes) -> None:
    here, there = socket.socketpair()
    with here, there:
        here.sendall(data)
        with pytest.raises(FrameError):
            make_inbox().read(there)


def test_a_message_over_the_limit_is_refused_before_it_is_received(pair: Pair) -> None:
    here, there = pair
    inbox = make_inbox(max_bytes=10)
    here.sendall(frame(b"x" * 10))
    inbox.read(there)
    assert inbox.take() == [b"x" * 10]
    here.sendall(PREFIX.pack(MARK | 11))
    with pytest.raises(FrameError, match="11 bytes, where 10"):
        inbox.read(there)


def test_a_message_over_the_limit_behind_others_is_held_until_they_are_heard(pair: Pair) -> None:
    here, there = pair
    inbox = make_inbox(max_bytes=10)
    here.sendall(frame(b"hello") + frame(b"x" * 30_000) + frame(b"y"))
    inbox.read(there)
    assert inbox.take() == [b"hello"]
    assert inbox.held
    inbox.max_bytes = 30_000
    inbox.read(there)
    assert inbox.take() == [b"x" * 30_000, b"y"]
    assert not inbox.held


@pytest.mark.parametrize("part", [b"", frame(b"x" * 9)[:3], frame(b"x" * 100)[:50], frame(b"x" * 100_000)[:30_000]])
def test_the_end_in_the_middle_of_a_message(pair: Pair, part: bytes) -> None:
    here, there = pair
    inbox = make_inbox()
    here.sendall(part)
    assert read_all(inbox, there) == []
    assert not inbox.ended
    here.close()
    assert read_all(inbox, there) == []
    assert inbox.ended


def test_many_messages_go_in_few_calls(pair: Pair) -> None:
    here, there = pair
    outbox = Outbox()
    assert outbox.write(here)
    for number in range(100):
        outbox.push(b"%d" % number)
    calls = 1
    while not outbox.write(here):
        calls += 1
    assert calls <= 2
    assert read_all(make_inbox(), there) == [b"%d" % number for number in range(100)]
