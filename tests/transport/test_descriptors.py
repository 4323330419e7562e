"""Descriptors that come with the first answer, and listeners on sockets that others have bound."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fibernb.errors import NotConnected
from fibernb.transport import unix
from fibernb.transport.descriptors import dial_for_descriptor
from fibernb.transport.framing import MARK, PREFIX

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
