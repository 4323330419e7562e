"""What is particular to ZeroMQ: foreign frames, backpressure, interrupts, broken connections."""

from __future__ import annotations

import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
import zmq

from fibernb.errors import NotConnected
from fibernb.transport import Arrival, Link, zeromq, zeromq_listener
from tests.transport.conftest import LISTENER_PROGRAM, PATIENCE_S, Place, collect, collect_messages, meet, send_all


@pytest.fixture(params=["zmq+ipc:{}/s", "zmq+tcp:127.0.0.1:*"])
def place(request: pytest.FixtureRequest, directory: Path) -> Iterator[Place]:
    made = Place(request.param.format(directory))
    yield made
    made.close()


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    made.linger = 0
    yield made
    made.destroy()


def endpoint(place: Place) -> str:
    return place.address.removeprefix("zmq+").replace(":", "://", 1)


def test_only_the_owner_may_connect(directory: Path) -> None:
    place = Place(f"zmq+ipc:{directory}/s")
    place.listen()
    assert stat.S_IMODE((directory / "s").stat().st_mode) == 0o600
    place.close()


def test_a_free_port_is_told(directory: Path) -> None:
    place = Place("zmq+tcp:127.0.0.1:*")
    listener = place.listen()
    assert listener.address.startswith("zmq+tcp:127.0.0.1:")
    assert int(listener.address.rpartition(":")[2]) > 0
    place.close()


@pytest.mark.parametrize(
    "frames", [[b"two", b"frames"], [b"", b"unknown"], [b"", b"hello", b"more"], [b"", b"", b""], [b"x" * 1001]]
)
def test_what_is_no_message_ends_its_peer_only(
    place: Place, context: zmq.Context[zmq.Socket[bytes]], frames: list[bytes]
) -> None:
    listener = place.listen(hello_bytes=1000)
    link, _ = meet(place, listener)
    with context.socket(zmq.DEALER) as foreign:
        foreign.connect(endpoint(place))
        foreign.send_multipart(frames)
        [(_, message)] = collect(listener, 1)
        assert message is None
        foreign.send(b"still talking")
        assert foreign.recv_multipart() == [b"", b"goodbye"]
    assert listener.poll(0.05) == []
    assert listener.refused == 1
    link.send(b"still here")
    assert [arrival.message for arrival in collect(listener, 1)] == [b"still here"]


def test_a_stream_that_is_not_zeromq_s(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    kind = socket.AF_UNIX if "ipc" in place.address else socket.AF_INET
    place_name = endpoint(place).partition("://")[2]
    with socket.socket(kind, socket.SOCK_STREAM) as raw:
        raw.connect(place_name if kind == socket.AF_UNIX else ("127.0.0.1", int(place_name.rpartition(":")[2])))
        raw.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert listener.poll(0.05) == []
    link.send(b"still here")
    assert collect(listener, 1) == [Arrival(peer, b"still here")]


def test_a_listener_that_speaks_otherwise(place: Place, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with context.socket(zmq.ROUTER) as foreign:
        foreign.bind(endpoint(place))
        bound = foreign.getsockopt_string(zmq.LAST_ENDPOINT).replace("://", ":", 1)
        place.address = f"zmq+{bound}"
        link = place.dial(PATIENCE_S)
        identity = foreign.recv_multipart()[0]
        foreign.send_multipart([identity, b"fine"])
        foreign.send_multipart([identity, b"what", b"is", b"this"])
        assert link.receive() == [b"fine"]
        with pytest.raises(NotConnected, match="does not speak this protocol"):
            link.receive()
        link.close()


def test_a_listener_that_never_answers(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq, "HANDSHAKE_S", 0.1)
    kind = socket.AF_UNIX if "ipc" in place.address else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as silent:
        if kind == socket.AF_UNIX:
            silent.bind(endpoint(place).partition("://")[2])
        else:
            silent.bind(("127.0.0.1", 0))
            place.address = f"zmq+tcp:127.0.0.1:{silent.getsockname()[1]}"
        silent.listen()
        with pytest.raises(NotConnected, match="nobody answers"):
            place.dial()


@contextmanager
def stopped_listener(place: Place) -> Iterator[tuple[Link, subprocess.Popen[str]]]:
    """A link to a listener that does not run, and its process."""
    command = [sys.executable, "-c", LISTENER_PROGRAM, place.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            place.address = process.stdout.readline().strip()
            link = place.dial(PATIENCE_S)
            link.send(b"hello")
            assert link.receive(PATIENCE_S) == [b"hello"]
            process.send_signal(signal.SIGSTOP)
            yield link, process
        finally:
            process.kill()


def test_send_waits_while_the_connection_is_full(place: Place) -> None:
    messages = [b"%d" % number * 1000 for number in range(10_000)]
    with stopped_listener(place) as (link, process):
        sender = threading.Thread(target=send_all, args=(link, messages), daemon=True)
        sender.start()
        sender.join(0.3)
        assert sender.is_alive()
        process.send_signal(signal.SIGCONT)
        assert collect_messages(link, len(messages)) == messages
        sender.join()


@pytest.mark.parametrize("end", ["link", "listener"])
def test_a_waiting_send_ends_with_the_connection(place: Place, end: str) -> None:
    errors: list[Exception] = []
    with stopped_listener(place) as (link, process):

        def send() -> None:
            try:
                while True:
                    link.send(b"x" * 10_000)
            except NotConnected as error:
                errors.append(error)

        sender = threading.Thread(target=send)
        sender.start()
        sender.join(0.3)
        assert sender.is_alive()
        if end == "link":
            link.close()
        else:
            process.kill()
        sender.join(PATIENCE_S)
    assert len(errors) == 1


@pytest.mark.parametrize("end", ["link", "listener"])
def test_closing_in_the_middle_of_much_traffic(place: Place, end: str) -> None:
    """libzmq has ended the process here; see `fibernb.transport.zeromq_socket.make_socket`."""
    listener = place.listen()
    link, peer = meet(place, listener)
    for _ in range(3_000):
        link.send(b"x" * 10_000)
        listener.send(peer, b"x" * 10_000)
    (link if end == "link" else listener).close()


def test_more_than_one_poll_s_worth_of_messages(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq_listener, "MESSAGES_AT_ONCE", 10)
    listener = place.listen()
    link, peer = meet(place, listener)
    for number in range(100):
        link.send(b"%d" % number)
    link.close()
    assert collect(listener, 101) == [*(Arrival(peer, b"%d" % number) for number in range(100)), Arrival(peer, None)]


def test_interrupts_lose_nothing_unless_the_link_ends(place: Place) -> None:
    def interrupt(_: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_filename.endswith("zeromq_link.py"):
            raise KeyboardInterrupt

    listener = place.listen()
    numbers = [b"%d" % number for number in range(50)]
    reasons: list[str] = []
    before = signal.signal(signal.SIGALRM, interrupt)
    for _ in range(20):
        link, peer = meet(place, listener)
        for number in numbers:
            listener.send(peer, number)
        got: list[list[bytes]] = []
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        while sum(map(len, got)) < len(numbers) and len(reasons) < 20:
            try:
                got.extend(map(link.receive, (1.0,)))
            except KeyboardInterrupt:
                continue
            except NotConnected as error:
                reasons.append(str(error))
                break
        signal.setitimer(signal.ITIMER_REAL, 0)
        messages = [message for batch in got for message in batch]
        assert messages == numbers[: len(messages)]
        link.close()
        assert collect(listener, 1) == [Arrival(peer, None)]
    signal.signal(signal.SIGALRM, before)
    assert len(reasons) < 20
    assert all("interrupted" in reason for reason in reasons)


def test_an_interrupt_while_receiving_waits_does_no_harm(place: Place) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    listener = place.listen()
    link, peer = meet(place, listener)
    before = signal.signal(signal.SIGALRM, interrupt)

    def receive() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        link.receive()

    try:
        with pytest.raises(KeyboardInterrupt):
            receive()
    finally:
        signal.signal(signal.SIGALRM, before)
    listener.send(peer, b"after")
    assert collect_messages(link, 1) == [b"after"]
