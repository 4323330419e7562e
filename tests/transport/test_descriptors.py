"""Descriptors that come along with messages, and listeners on sockets that others have bound."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fibernb.errors import NotConnected
from fibernb.transport import descriptors, socket_file, unix
from fibernb.transport.descriptors import DescriptorLink, DescriptorSocket, dial_for_descriptor
from fibernb.transport.framing import MARK, PREFIX
from fibernb.transport.protocol import Peer
from fibernb.transport.unix_listener import UnixListener

MAX_BYTES = 1000


def serve(path: str, answer: Callable[[socket.socket], object]) -> threading.Thread:
    """Somebody who accepts one connection, and answers it after the hello."""
    listening, _ = unix.bind(path)
    listening.setblocking(True)

    def run() -> None:
        connection, _ = listening.accept()
        connection.recv(1000)
        answer(connection)
        connection.close()
        listening.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_descriptor_comes_along_and_the_talk_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    listening, file = unix.bind(path)
    listener = unix.adopt(listening, path)
    read, write = os.pipe()
    heard: list[bytes | None] = []

    def run() -> None:
        (hello,) = listener.poll(10)
        heard.append(hello.message)
        listener.send_descriptor(hello.peer, b"welcome", write)
        listener.send_descriptor(99, b"nobody", write)
        (more,) = listener.poll(10)
        heard.append(more.message)
        listener.send(more.peer, b"bye")
        listener.poll(10)

    thread = threading.Thread(target=run)
    thread.start()
    link, answer, fd = dial_for_descriptor(path, b"hello", MAX_BYTES, 10)
    assert answer == b"welcome"
    assert fd is not None
    os.write(fd, b"through the pipe")
    assert os.read(read, 100) == b"through the pipe"
    link.send(b"more")
    assert link.receive(10) == [b"bye"]
    link.close()
    thread.join()
    assert heard == [b"hello", b"more"]
    listener.close()
    assert Path(path).exists(), "the file stays with who has bound the socket"
    file.remove()
    for each in (fd, read, write):
        os.close(each)


def test_a_descriptor_for_a_peer_that_has_gone(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    listening, _ = unix.bind(path)
    listener = unix.adopt(listening, path)
    link = unix.dial(path)
    link.send(b"hello")
    (hello,) = listener.poll(10)
    link.close()
    listener.send_descriptor(hello.peer, b"welcome", 0)
    assert listener.poll(10)[0].message is None
    listener.close()


def test_without_a_descriptor(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    thread = serve(path, lambda connection: connection.sendall(PREFIX.pack(MARK | 2) + b"no"))
    link, answer, fd = dial_for_descriptor(path, b"hello", MAX_BYTES, 10)
    assert (answer, fd) == (b"no", None)
    link.close()
    thread.join()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "the other side has ended or hung up"),
        (PREFIX.pack(MARK | 9)[:3], "the other side has ended or hung up"),
        (b"HTTP/1.1 400 Bad Request", "does not speak this protocol"),
        (PREFIX.pack(MARK | 1001), "does not speak this protocol"),
    ],
)
def test_who_answers_badly(tmp_path: Path, answer: bytes, says: str) -> None:
    path = str(tmp_path / "s")

    def send(connection: socket.socket) -> None:
        socket.send_fds(connection, [answer or b"x"], [0]) if answer else None

    thread = serve(path, send)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(NotConnected, match=says):
        dial_for_descriptor(path, b"hello", MAX_BYTES, 10)
    thread.join()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_nobody_there_or_silent(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with pytest.raises(NotConnected, match="cannot connect to"):
        dial_for_descriptor(path, b"hello", MAX_BYTES, 10)
    listening, _ = unix.bind(path)
    with pytest.raises(NotConnected, match="timed out"):
        dial_for_descriptor(path, b"hello", MAX_BYTES, 0.05)
    listening.close()


class Both(NamedTuple):
    """A listener whose peers send descriptors, and one of them."""

    listener: UnixListener
    link: DescriptorLink
    peer: Peer


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    path = str(tmp_path / "s")
    listening, _ = unix.bind(path)
    listener = unix.adopt(listening, path)
    link = DescriptorLink(DescriptorSocket(socket_file.connect(path)), path, MAX_BYTES)
    link.send(b"hello")
    (hello,) = listener.poll(10)
    yield Both(listener, link, hello.peer)
    link.close()
    listener.close()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_descriptors_come_with_any_message_of_a_peer(both: Both) -> None:
    listener, link, peer = both
    assert listener.take_descriptor(peer) is None
    assert listener.take_descriptor(99) is None
    read, write = os.pipe()
    link.send(b"without")
    link.send_with(b"with", write)
    link.send(b"without")
    arrived: list[bytes | None] = []
    while len(arrived) < 3:
        arrived += [arrival.message for arrival in listener.poll(10)]
    assert arrived == [b"without", b"with", b"without"]
    fd = listener.take_descriptor(peer)
    assert fd is not None
    assert not os.get_inheritable(fd)
    os.write(fd, b"x")
    assert os.read(read, 10) == b"x"
    for each in (fd, read, write):
        os.close(each)


def test_descriptors_are_taken_by_number(both: Both) -> None:
    listener, link, peer = both
    for number in range(1, 4):
        assert listener.send_descriptor(peer, str(number).encode(), 0)
    answers: list[bytes] = []
    while len(answers) < 3:
        answers += link.receive(10)
    before = open_files()
    fd = link.take_descriptor(2)
    assert fd is not None
    os.close(fd)
    assert open_files() == before - 2, "the first is nobody's any more"
    assert link.take_descriptor(2) is None
    assert link.take_descriptor(3) is None, "it was passed over"


def test_what_nobody_has_taken_is_closed_with_the_link(both: Both) -> None:
    before = open_files()
    both.link.send_with(b"with", 0)
    assert both.listener.poll(10)
    assert open_files() == before + 1
    both.link.close()
    assert both.listener.poll(10) == [(both.peer, None)]
    assert open_files() == before - 2, "that one, and both ends of the link"


def test_a_peer_that_does_not_read_gets_no_descriptors(both: Both) -> None:
    listener, link, peer = both
    while listener.send_descriptor(peer, b"x" * 500, 0):
        continue
    assert listener.send_descriptor(99, b"nobody", 0)
    link.close()


def test_nothing_is_lost_when_a_signal_handler_raises_while_receiving() -> None:
    first, second = socket.socketpair()
    receiving = DescriptorSocket(first)
    socket.send_fds(second, [b"abc"], [0])
    buffer = bytearray(10)

    def interrupted(*_: object) -> list[int]:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descriptors, "descriptors_in", interrupted)
        with pytest.raises(KeyboardInterrupt):
            receiving.recv_into(buffer)
    assert receiving.recv_into(buffer) == 3
    assert buffer[:3] == b"abc"
    assert receiving.take_descriptor() is not None
    receiving.close()
    second.close()


def test_a_link_that_is_gone_takes_no_descriptors(both: Both) -> None:
    both.listener.drop(both.peer)
    with pytest.raises(NotConnected, match="is gone"):
        both.link.send_with(b"with", 0)
    both.link.close()
    with pytest.raises(NotConnected, match="closed on this side"):
        both.link.send_with(b"with", 0)
