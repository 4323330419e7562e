from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from fibernb.multiprocessing.connection import Pipe
from fibernb.multiprocessing.pooling.channel import HEADER, Channel
from fibernb.multiprocessing.pooling.messages import GiveBack, Leave, Stop, ToWorker, Work, encoder, to_worker


@pytest.fixture
def ends() -> Iterator[tuple[Channel[ToWorker], Channel[ToWorker]]]:
    first, second = (Channel(end, to_worker) for end in Pipe())
    yield first, second
    first.close()
    second.close()


Ends = tuple[Channel[ToWorker], Channel[ToWorker]]


def test_messages_arrive_in_order(ends: Ends) -> None:
    ours, theirs = ends
    sent: list[ToWorker] = [GiveBack(), Stop(job=3), Leave()]
    ours.send(sent[0])
    assert theirs.receive() == sent[:1]
    for message in sent:
        ours.send(message)
    received: list[ToWorker] = []
    while len(received) < 3:
        received += theirs.receive()
    assert received == sent


@pytest.mark.parametrize("size", [0, 65_000, 65_536, 65_537, 3_000_000])
def test_messages_of_any_size_arrive_whole(ends: Ends, size: int) -> None:
    ours, theirs = ends
    sent: list[ToWorker] = [Work(pieces=[], functions={1: bytes(size)}), Stop(job=1), Stop(job=2)]

    def send() -> None:
        for message in sent:
            ours.send(message)

    sender = threading.Thread(target=send)
    sender.start()
    received: list[ToWorker] = []
    while len(received) < len(sent):
        received += theirs.receive()
    sender.join()
    assert received == sent


def test_messages_that_come_in_parts_are_put_together(ends: Ends) -> None:
    ours, theirs = ends
    data = encoder.encode(Stop(job=7))
    data = HEADER.pack(len(data)) + data
    received: list[ToWorker] = []
    for byte in data:
        ours._write(bytes([byte]))
        received += theirs.receive()
    assert received == [Stop(job=7)]


def test_the_end_of_the_other_side_is_an_error(ends: Ends) -> None:
    ours, theirs = ends
    ours.close()
    with pytest.raises(EOFError):
        theirs.receive()
    with pytest.raises(OSError, match="pipe"):
        theirs.send(Leave())


def test_an_end_in_the_middle_of_a_large_message_is_an_error(ends: Ends) -> None:
    ours, theirs = ends
    ours._write(HEADER.pack(100_000) + bytes(10))
    assert theirs.receive() == []
    ours.close()
    with pytest.raises(EOFError, match="in the middle"):
        theirs.receive()
