"""What is particular to Unix sockets: files, foreign streams, interrupts, descriptors."""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest

from fibernb.errors import ConfigError, NotConnected
from fibernb.transport import Arrival, Listener
from fibernb.transport.framing import MARK, PREFIX
from fibernb.transport.unix_link import UnixLink
from tests.transport.conftest import PATIENCE_S, Place, collect, collect_messages, meet


@pytest.fixture
def path(directory: Path) -> Path:
    return directory / "s"


@pytest.fixture
def place(path: Path) -> Iterator[Place]:
    made = Place(f"unix:{path}")
    yield made
    made.close()


def connect(path: Path) -> socket.socket:
    raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    raw.connect(str(path))
    return raw


def frame(message: bytes) -> bytes:
    return PREFIX.pack(MARK | len(message)) + message


def test_who_was_done_with_sending_first_is_heard_first(place: Place, path: Path) -> None:
    """Though a message that was received in parts stood before."""
    listener = place.listen()
    second, _ = meet(place, listener)
    with connect(path) as first:
        first.sendall(frame(b"hello"))
        [(peer, _)] = collect(listener, 1)
        listener.limit(peer, 2**27)
        large = b"x" * 150_000
        first.sendall(frame(large)[:100_000])
        assert listener.poll(0) == []
        first.sendall(frame(large)[100_000:] + frame(b"last"))
        second.send(b"afterwards")
        assert [arrival.message for arrival in listener.poll(PATIENCE_S)] == [large, b"last", b"afterwards"]


# ---- the file -------------------------------------------------------------------------------------------


def test_only_the_owner_may_connect(place: Place, path: Path) -> None:
    place.listen()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_stale_file_is_replaced(place: Place, path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
    assert path.is_socket()
    meet(place, place.listen())


def test_another_kind_of_file_is_not_replaced(place: Place, path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(ConfigError, match="cannot listen"):
        place.listen()
    assert path.read_text() == "precious"
    with pytest.raises(NotConnected, match="cannot connect"):
        place.dial()


def test_a_crowded_listener_is_a_living_one(place: Place, path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as busy:
        busy.bind(str(path))
        busy.listen(0)
        with connect(path):
            with pytest.raises(ConfigError, match="living listener"):
                place.listen()
            with pytest.raises(NotConnected, match="does not take the connection, after trying"):
                place.dial(0.05)


def test_a_dialler_that_may_not(place: Place, path: Path) -> None:
    (path.parent / "file").touch()
    place.address = f"unix:{path.parent}/file/s"
    started = time.monotonic()
    with pytest.raises(NotConnected, match="Not a directory"):
        place.dial(PATIENCE_S)
    assert time.monotonic() - started < 1


def test_closing_leaves_another_listener_s_file_alone(place: Place, path: Path) -> None:
    first = place.listen()
    path.unlink()
    second = place.listen()
    first.close()
    meet(place, second)
    path.unlink()
    second.close()


# ---- foreign streams ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "refused"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 1),
        (b"\0" * 100, 1),
        (b"\xff" * 8, 1),
        (PREFIX.pack(MARK | 0xFFFFFFFF), 1),
        (PREFIX.pack((1 << 20) + 1 | MARK), 1),
        (PREFIX.pack(5), 1),
        (PREFIX.pack(MARK | 5) + b"hel", 0),
        (PREFIX.pack(MARK | 500_000) + b"x" * 400_000, 0),
        (PREFIX.pack(MARK | 5)[:4], 0),
        (b"", 0),
    ],
)
def test_what_is_no_message_ends_its_peer_only(place: Place, path: Path, stream: bytes, refused: int) -> None:
    listener = place.listen()
    link, _ = meet(place, listener)
    with connect(path) as raw:
        sender = threading.Thread(target=raw.sendall, args=(stream,))
        sender.start()
        if refused:
            [(_, message)] = collect(listener, 1)
            sender.join()
            with suppress(ConnectionResetError):
                assert raw.recv(1) == b""
        else:
            while sender.is_alive() or listener.poll(0.01):
                assert listener.poll(0) == []
            raw.close()
            [(_, message)] = collect(listener, 1)
    assert message is None
    assert listener.refused == refused
    link.send(b"still here")
    assert [arrival.message for arrival in collect(listener, 1)] == [b"still here"]


def test_random_streams_break_nothing(place: Place, path: Path) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    chance = random.Random(20)
    for _ in range(100):
        with connect(path) as raw:
            for _ in range(4):
                raw.sendall(frame(b"x" * chance.randrange(50)))
                raw.sendall(chance.randbytes(chance.randrange(20)))
        while collect(listener, 1)[-1].message is not None:
            continue
    link.send(b"still here")
    assert collect(listener, 1) == [Arrival(peer, b"still here")]


def test_messages_before_a_bad_prefix_are_delivered(place: Place, path: Path) -> None:
    listener = place.listen()
    with connect(path) as raw:
        raw.sendall(frame(b"good") + b"garbage!")
        assert [arrival.message for arrival in collect(listener, 2)] == [b"good", None]
    assert listener.refused == 1


def test_a_dropped_peer_that_does_not_read_ends_when_it_goes(place: Place, path: Path) -> None:
    listener = place.listen()
    with connect(path) as raw:
        raw.sendall(frame(b"hello"))
        [(peer, _)] = collect(listener, 1)
        listener.send(peer, b"x" * 5_000_000)
        listener.drop(peer)
        assert listener.poll(0.02) == []
    assert listener.poll(0.02) == []
    listener.close()


def test_a_peer_that_goes_without_reading(place: Place, path: Path) -> None:
    listener = place.listen()
    with connect(path) as raw:
        raw.sendall(frame(b"hello"))
        [(peer, _)] = collect(listener, 1)
        listener.send(peer, b"unread")
        raw.sendall(frame(b"last"))
    arrivals = collect(listener, 1)
    while arrivals[-1].message is not None:
        arrivals += collect(listener, 1)
    assert arrivals == [Arrival(peer, b"last"), Arrival(peer, None)]
    assert listener.refused == 0


def test_a_listener_that_speaks_otherwise(place: Place, path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as foreign:
        foreign.bind(str(path))
        foreign.listen()
        link = place.dial()
        accepted, _ = foreign.accept()
        with accepted:
            accepted.sendall(b"220 mail.example.org ESMTP\r\n")
            with pytest.raises(NotConnected, match="is gone"):
                link.receive(PATIENCE_S)


# ---- descriptors ----------------------------------------------------------------------------------------


def test_without_descriptors_one_is_turned_away_and_the_others_stay(place: Place) -> None:
    listener = place.listen()
    link, _ = meet(place, listener)
    waiting = place.dial()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        assert listener.poll(0.05) == []
        with pytest.raises(NotConnected):
            waiting.receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert listener.refused == 1
    link.send(b"still here")
    assert collect(listener, 1)[0].message == b"still here"
    meet(place, listener)


def test_descriptors_are_given_back(place: Place) -> None:
    def count() -> int:
        return len(os.listdir("/dev/fd"))

    before = count()
    for _ in range(5):
        listener = place.listen()
        link, peer = meet(place, listener)
        link.close()
        assert collect(listener, 1) == [Arrival(peer, None)]
        meet(place, listener)
        place.close()
    assert count() == before


def test_closing_a_link_ends_another_thread_s_send(place: Place) -> None:
    listener = place.listen()
    link, _ = meet(place, listener)
    descriptor = link.fileno()
    errors: list[Exception] = []

    def send() -> None:
        try:
            while True:
                link.send(b"x" * 1_000_000)
        except NotConnected as error:
            errors.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    time.sleep(0.05)
    link.close()
    sender.join(PATIENCE_S)
    assert len(errors) == 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_closing_a_link_in_a_signal_handler_while_it_receives(place: Place) -> None:
    listener = place.listen()
    link, _ = meet(place, listener)
    descriptor = link.fileno()
    before = signal.signal(signal.SIGALRM, lambda *_: link.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(NotConnected):
            link.receive()
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


# ---- interrupts -----------------------------------------------------------------------------------------


@contextmanager
def interrupts(first_s: float, interval_s: float = 0.0) -> Iterator[None]:
    """KeyboardInterrupt in the transport's code, after that time and then again and again."""

    def interrupt(_: int, frame: FrameType | None) -> None:
        if frame is not None and "/fibernb/transport/" in frame.f_code.co_filename:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, first_s, interval_s)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def in_thread(listener: Listener, got: list[Arrival]) -> Iterator[None]:
    """The listener is polled by another thread meanwhile; what comes is sent back."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            for arrival in listener.poll(0.5):
                got.append(arrival)
                listener.limit(arrival.peer, 2**27)
                if arrival.message is not None:
                    listener.send(arrival.peer, arrival.message)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        listener.wake()
        thread.join()


def test_an_interrupted_receive_leaves_the_link_as_it_was(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    for timeout_s in (None, PATIENCE_S):
        with pytest.raises(KeyboardInterrupt), interrupts(0.05):
            link.receive(timeout_s)
        listener.send(peer, b"after")
        assert link.receive() == [b"after"]


def test_an_interrupted_send_is_finished_by_the_next_one(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    listener.limit(peer, 2**27)
    large = os.urandom(1000) * 20_000
    with pytest.raises(KeyboardInterrupt), interrupts(0.05):
        link.send(large)
    got: list[Arrival] = []
    with in_thread(listener, got):
        link.send(b"next")
        assert collect_messages(link, 2) == [large, b"next"]
    assert got == [Arrival(peer, large), Arrival(peer, b"next")]


def test_an_interrupted_send_is_finished_by_a_receive(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    listener.limit(peer, 2**27)
    large = os.urandom(1000) * 20_000
    with pytest.raises(KeyboardInterrupt), interrupts(0.05):
        link.send(large)
    assert link.receive(0) == []
    assert link.receive(0.05) == []
    got: list[Arrival] = []
    with in_thread(listener, got):
        assert link.receive() == [large]
    assert got == [Arrival(peer, large)]


def test_a_receive_after_an_interrupted_send_notices_that_the_other_side_has_gone(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    with pytest.raises(KeyboardInterrupt), interrupts(0.05):
        link.send(b"x" * 20_000_000)
    listener.send(peer, b"last")
    listener.close()
    assert link.receive() == [b"last"]
    with pytest.raises(NotConnected):
        link.receive()


def test_interrupts_at_any_moment(place: Place) -> None:
    """Nothing is lost or mixed up, whatever was going on; an interrupted send sends its message whole or not at all."""
    listener = place.listen()
    link, _ = meet(place, listener)
    chance = random.Random(7)
    messages = [b"%d:" % number + b"x" * chance.choice((0, 100, 20_000, 300_000)) for number in range(300)]
    arrived: list[Arrival] = []
    batches: list[list[bytes]] = []
    sent: list[bytes] = []
    interrupted = 0
    with in_thread(listener, arrived):
        with interrupts(0.001, 0.0005):
            for message in messages:
                try:
                    link.send(message)
                    sent.append(message)
                    batches.extend(map(link.receive, (chance.choice((0, 0.001)),)))
                except KeyboardInterrupt:
                    interrupted += 1
        link.send(b"end")
        while [b"end"] not in [batch[-1:] for batch in batches[-1:]]:
            batches.append(link.receive())
    got = [arrival.message for arrival in arrived]
    assert [message for batch in batches for message in batch] == got
    assert got == [message for message in [*messages, b"end"] if message in set(got)]
    assert set(sent) <= set(got)
    assert interrupted > 10


def test_an_interrupt_while_dialling_leaves_nothing_behind(place: Place) -> None:
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(KeyboardInterrupt), interrupts(0.05):
        place.dial(PATIENCE_S)
    assert len(os.listdir("/dev/fd")) == before


def test_a_broken_link_is_an_error_though_sigpipe_kills(place: Place) -> None:
    listener = place.listen()
    link, _ = meet(place, listener)
    listener.close()
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        with pytest.raises(NotConnected, match="Broken pipe"):
            link.send(b"x")
    finally:
        signal.signal(signal.SIGPIPE, before)


def test_a_default_timeout_of_sockets_does_not_matter(place: Place) -> None:
    listener = place.listen()
    socket.setdefaulttimeout(0.01)
    try:
        link, peer = meet(place, listener)
    finally:
        socket.setdefaulttimeout(None)
    timer = threading.Timer(0.05, listener.send, (peer, b"late"))
    timer.start()
    assert isinstance(link, UnixLink)
    assert link.receive() == [b"late"]
    timer.join()
