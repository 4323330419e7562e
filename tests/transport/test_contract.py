"""What every transport promises, tried on each of them."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fibernb.errors import ConfigError, NotConnected
from fibernb.transport import Arrival, Link, dial, unix_listener
from tests.transport.conftest import LISTENER_PROGRAM, PATIENCE_S, Place, collect, collect_messages, meet, send_all

ADDRESSES = {
    "unix": "unix:{}/s",
    "unix without epoll": "unix:{}/s",
    "memory": "memory:{}",
    "zmq+ipc": "zmq+ipc:{}/s",
    "zmq+tcp": "zmq+tcp:127.0.0.1:*",
}


BETWEEN_PROCESSES = [name for name in ADDRESSES if name != "memory"]


@pytest.fixture(params=list(ADDRESSES))
def place(request: pytest.FixtureRequest, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    if request.param == "unix without epoll":
        monkeypatch.setattr(unix_listener, "make_poller", unix_listener.PlainPoller)
    made = Place(ADDRESSES[request.param].format(directory))
    yield made
    made.close()
    assert list(directory.iterdir()) == []


def pattern(size: int) -> bytes:
    """Bytes that show when a part of them is lost or moved."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


# ---- messages -------------------------------------------------------------------------------------------


def test_messages_come_whole_and_in_order(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    sizes = [0, 1, 7, 8, 9, 100, 16_383, 16_384, 16_385, 65_528, 65_536, 0, 300_000, 5, 262_136, 1_000_000, 3]
    messages = [pattern(size) for size in sizes]
    sender = threading.Thread(target=send_all, args=(link, messages))
    sender.start()
    assert collect(listener, len(messages)) == [Arrival(peer, message) for message in messages]
    sender.join()
    for message in messages:
        listener.send(peer, message)
    receiver = threading.Thread(target=lambda: got.extend(collect_messages(link, len(messages))))
    got: list[bytes] = []
    receiver.start()
    while receiver.is_alive():
        listener.poll(0.01)
    assert got == messages


def test_many_small_messages_in_both_directions(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    messages = [b"%d" % number * (number % 50) for number in range(5_000)]
    sender = threading.Thread(target=send_all, args=(link, messages))
    sender.start()
    for arrival in collect(listener, len(messages)):
        listener.send(peer, arrival.message or b"")
    sender.join()
    got: list[bytes] = []
    receiver = threading.Thread(target=lambda: got.extend(collect_messages(link, len(messages))))
    receiver.start()
    while receiver.is_alive():
        listener.poll(0.01)
    assert got == messages


def test_a_message_of_fifty_megabytes(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    listener.limit(peer, 2**27)
    large = pattern(50_000_000)
    sender = threading.Thread(target=send_all, args=(link, [large, b"after"]))
    sender.start()
    arrivals = collect(listener, 2)
    sender.join()
    assert arrivals == [Arrival(peer, large), Arrival(peer, b"after")]
    got: list[bytes] = []
    receiver = threading.Thread(target=lambda: got.extend(collect_messages(link, 2)))
    receiver.start()
    listener.send(peer, large)
    listener.send(peer, b"after")
    while receiver.is_alive():
        listener.poll(0.01)
    assert got == [large, b"after"]


def test_concurrent_senders_do_not_mix(place: Place) -> None:
    listener = place.listen()
    link, _ = meet(place, listener)

    def send(letter: bytes) -> None:
        for number in range(100):
            link.send(b"%s%d:" % (letter, number) + letter * (number * 1000))

    senders = [threading.Thread(target=send, args=(letter,)) for letter in (b"a", b"b", b"c", b"d")]
    for sender in senders:
        sender.start()
    arrivals = collect(listener, 400)
    for sender in senders:
        sender.join()
    for letter in (b"a", b"b", b"c", b"d"):
        mine = [arrival.message for arrival in arrivals if (arrival.message or b"").startswith(letter)]
        assert mine == [b"%s%d:" % (letter, number) + letter * (number * 1000) for number in range(100)]


def test_sending_while_another_thread_waits_to_receive(place: Place) -> None:
    listener = place.listen()
    link, _ = meet(place, listener)
    got: list[bytes] = []
    receiver = threading.Thread(target=lambda: got.extend(collect_messages(link, 200)))
    receiver.start()
    for number in range(200):
        link.send(b"%d" % number)
        for arrival in collect(listener, 1):
            listener.send(arrival.peer, arrival.message or b"")
    receiver.join()
    assert got == [b"%d" % number for number in range(200)]


def test_many_peers(place: Place) -> None:
    listener = place.listen()
    links = [place.dial(PATIENCE_S) for _ in range(20 if "zmq" in place.address else 200)]
    for number, link in enumerate(links):
        link.send(b"%d" % number)
    arrivals = collect(listener, len(links))
    assert len({arrival.peer for arrival in arrivals}) == len(links)
    for peer, message in arrivals:
        listener.send(peer, b"to " + (message or b""))
    for number, link in enumerate(links):
        assert collect_messages(link, 1) == [b"to %d" % number]


def test_a_slow_reader_does_not_hold_up_the_listener(place: Place) -> None:
    listener = place.listen()
    slow, slow_peer = meet(place, listener)
    quick, quick_peer = meet(place, listener)
    messages = [b"%d" % number * 10_000 for number in range(200)]
    started = time.monotonic()
    for message in messages:
        listener.send(slow_peer, message)
    assert time.monotonic() - started < 2
    listener.send(quick_peer, b"soon")
    listener.poll(0)
    assert collect_messages(quick, 1) == [b"soon"]
    got: list[bytes] = []
    receiver = threading.Thread(target=lambda: got.extend(collect_messages(slow, len(messages))))
    receiver.start()
    while receiver.is_alive():
        listener.poll(0.01)
    assert got == messages


# ---- waiting --------------------------------------------------------------------------------------------


def test_poll_and_receive_return_nothing_when_the_time_is_over(place: Place) -> None:
    listener = place.listen()
    link, _ = meet(place, listener)
    started = time.monotonic()
    assert listener.poll(0) == []
    assert link.receive(0) == []
    assert time.monotonic() - started < 0.5
    assert listener.poll(0.05) == []
    assert link.receive(0.05) == []
    assert 0.09 < time.monotonic() - started < 2


def test_receive_without_a_time_waits_for_a_message(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    timer = threading.Timer(0.05, lambda: listener.send(peer, b"there"))
    timer.start()
    assert link.receive() == [b"there"]
    timer.join()


def test_wake_ends_a_poll(place: Place) -> None:
    listener = place.listen()
    timer = threading.Timer(0.05, listener.wake)
    timer.start()
    started = time.monotonic()
    assert listener.poll(None) == []
    assert time.monotonic() - started < 2
    timer.join()


def test_wake_before_a_poll_ends_the_next_one_only(place: Place) -> None:
    listener = place.listen()
    listener.wake()
    listener.wake()
    started = time.monotonic()
    assert listener.poll(PATIENCE_S) == []
    assert time.monotonic() - started < 2
    assert listener.poll(0.05) == []
    assert time.monotonic() - started >= 0.05


def test_wake_from_a_signal_handler(place: Place) -> None:
    listener = place.listen()
    before = signal.signal(signal.SIGALRM, lambda *_: listener.wake())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        started = time.monotonic()
        assert listener.poll(PATIENCE_S) == []
        assert time.monotonic() - started < 2
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_does_not_disturb_those_who_wait(place: Place) -> None:
    listener = place.listen()
    link, _ = meet(place, listener)
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        started = time.monotonic()
        assert listener.poll(0.1) == []
        assert link.receive(0.1) == []
        assert 0.19 < time.monotonic() - started < 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_descriptor_is_readable_when_there_is_a_message(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    assert link.receive(0) == []
    poller = select.poll()
    poller.register(link.fileno(), select.POLLIN)
    for number in range(5):
        listener.send(peer, b"%d" % number)
        got: list[bytes] = []
        while not got:
            assert poller.poll(PATIENCE_S * 1000)
            got = link.receive(0)
        assert got == [b"%d" % number]
    while poller.poll(10):
        assert link.receive(0) == []


def test_a_quiet_link_need_not_be_asked_before_its_descriptor_is_waited_for(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    poller = select.poll()
    poller.register(link.fileno(), select.POLLIN)
    for number in range(5):
        listener.send(peer, b"%d" % number)
        got: list[bytes] = [] if link.quiet else link.receive(0)
        while not got:
            assert poller.poll(PATIENCE_S * 1000)
            got = link.receive(0)
        assert got == [b"%d" % number]


def test_the_descriptor_is_readable_when_the_listener_has_gone(place: Place) -> None:
    listener = place.listen()
    link, _ = meet(place, listener)
    assert link.receive(0) == []
    listener.close()
    poller = select.poll()
    poller.register(link.fileno(), select.POLLIN)

    def wait_and_receive() -> None:
        while poller.poll(PATIENCE_S * 1000):
            link.receive(0)

    with pytest.raises(NotConnected):
        wait_and_receive()


# ---- the end of a peer ----------------------------------------------------------------------------------


def test_a_link_that_closes_is_told_once_after_its_messages(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    link.send(b"last")
    link.close()
    assert collect(listener, 2) == [Arrival(peer, b"last"), Arrival(peer, None)]
    assert listener.poll(0.05) == []
    assert listener.refused == 0


def test_what_is_done_for_a_peer_that_has_gone_does_nothing(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    link.close()
    listener.send(peer, b"to nobody")
    assert collect(listener, 1) == [Arrival(peer, None)]
    listener.send(peer, b"to nobody")
    listener.limit(peer, 5)
    listener.drop(peer)
    listener.send(12345, b"never seen")
    listener.limit(12345, 5)
    listener.drop(12345)
    assert listener.poll(0.05) == []


def test_peers_are_not_named_again(place: Place) -> None:
    listener = place.listen()
    peers = set()
    for _ in range(5):
        link, peer = meet(place, listener)
        peers.add(peer)
        link.close()
        collect(listener, 1)
    assert len(peers) == 5


PEER_PROGRAM = """
import sys, time
from fibernb.transport import dial
link = dial(sys.argv[1], 10)
link.send(b"hello")
time.sleep(60)
"""


@pytest.mark.parametrize("place", BETWEEN_PROCESSES, indirect=True)
def test_a_killed_peer_is_noticed(place: Place) -> None:
    listener = place.listen()
    with subprocess.Popen([sys.executable, "-c", PEER_PROGRAM, place.address]) as process:
        try:
            [(peer, message)] = collect(listener, 1)
            assert message == b"hello"
        finally:
            process.kill()
        started = time.monotonic()
        assert collect(listener, 1) == [Arrival(peer, None)]
        assert time.monotonic() - started < 3


@pytest.mark.parametrize("place", BETWEEN_PROCESSES, indirect=True)
def test_a_killed_listener_is_noticed(place: Place, directory: Path) -> None:
    command = [sys.executable, "-c", LISTENER_PROGRAM, place.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            place.address = process.stdout.readline().strip()
            link = place.dial(PATIENCE_S)
            link.send(b"hello")
            assert link.receive(PATIENCE_S) == [b"hello"]
        finally:
            process.kill()
    with pytest.raises(NotConnected):
        link.receive(PATIENCE_S)
    with pytest.raises(NotConnected):
        send_all(link, [b"x" * 1000] * 10_000)
    listener = place.listen()  # takes the place of the dead one
    meet(place, listener)


# ---- the end of a listener ------------------------------------------------------------------------------


def test_a_listener_that_closes_ends_its_links_after_their_messages(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    for number in range(100):
        listener.send(peer, b"%d" % number)
    listener.close()
    assert collect_messages(link, 100) == [b"%d" % number for number in range(100)]
    for _ in range(2):
        with pytest.raises(NotConnected, match="gone"):
            link.receive(PATIENCE_S)
    with pytest.raises(NotConnected):
        send_all(link, [b"x" * 1000] * 10_000)


def test_what_is_queued_leaves_while_a_listener_closes(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    messages = [pattern(100_000 + number) for number in range(30)]
    for message in messages:
        listener.send(peer, message)
    got: list[bytes] = []
    receiver = threading.Thread(target=lambda: got.extend(collect_messages(link, len(messages))))
    receiver.start()
    listener.close()
    receiver.join()
    assert got == messages


def test_a_listener_closes_soon_though_a_peer_does_not_read(place: Place) -> None:
    listener = place.listen()
    _, peer = meet(place, listener)
    listener.send(peer, pattern(20_000_000))
    started = time.monotonic()
    listener.close()
    assert time.monotonic() - started < 3


def test_a_closed_listener(place: Place) -> None:
    listener = place.listen()
    _, peer = meet(place, listener)
    listener.close()
    listener.close()
    listener.wake()
    listener.send(peer, b"to nobody")
    listener.limit(peer, 5)
    listener.drop(peer)
    with pytest.raises(NotConnected, match="closed"):
        listener.poll(0)
    with pytest.raises(NotConnected):
        dial(listener.address)


def test_the_address_can_be_used_again(place: Place) -> None:
    for _ in range(3):
        listener = place.listen()
        link, peer = meet(place, listener)
        listener.send(peer, b"answer")
        assert collect_messages(link, 1) == [b"answer"]
        listener.close()
        with pytest.raises(NotConnected):
            link.receive(PATIENCE_S)


def test_an_address_in_use_is_refused(place: Place) -> None:
    listener = place.listen()
    with pytest.raises(ConfigError, match="cannot listen"):
        place.listen()
    place.dial(PATIENCE_S).send(b"hello")
    while b"hello" not in [arrival.message for arrival in collect(listener, 1)]:
        continue


# ---- hanging up -----------------------------------------------------------------------------------------


def test_a_dropped_peer_gets_what_was_queued_and_no_more(place: Place) -> None:
    listener = place.listen()
    link, peer = meet(place, listener)
    messages = [pattern(100_000 + number) for number in range(30)]
    for message in messages:
        listener.send(peer, message)
    link.send(b"unheard")
    listener.drop(peer)
    listener.drop(peer)
    listener.send(peer, b"too late")
    got: list[bytes] = []
    errors: list[Exception] = []

    def receive() -> None:
        try:
            while True:
                got.extend(link.receive(PATIENCE_S))
        except NotConnected as error:
            errors.append(error)

    receiver = threading.Thread(target=receive)
    receiver.start()
    while receiver.is_alive():
        assert listener.poll(0.01) == []
    assert got == messages
    assert "gone" in str(errors[0])
    link.close()
    assert listener.poll(0.05) == []
    assert listener.refused == 0


def test_a_link_closed_on_this_side(place: Place) -> None:
    listener = place.listen()
    link, _ = meet(place, listener)
    link.close()
    link.close()
    for use in (lambda: link.send(b"x"), lambda: link.receive(0), link.receive, link.fileno):
        with pytest.raises(NotConnected, match="closed on this side"):
            use()


def test_closing_a_link_ends_another_thread_s_receive(place: Place) -> None:
    listener = place.listen()
    for timeout_s in (None, PATIENCE_S):
        link, peer = meet(place, listener)
        errors: list[Exception] = []

        def receive(link: Link = link, timeout_s: float | None = timeout_s, errors: list[Exception] = errors) -> None:
            try:
                link.receive(timeout_s)
            except NotConnected as error:
                errors.append(error)

        receiver = threading.Thread(target=receive)
        receiver.start()
        time.sleep(0.05)
        link.close()
        receiver.join(PATIENCE_S)
        assert len(errors) == 1
        assert collect(listener, 1) == [Arrival(peer, None)]


# ---- limits ---------------------------------------------------------------------------------------------


def test_a_message_over_the_limit_drops_its_peer(place: Place) -> None:
    listener = place.listen(hello_bytes=100)
    link, peer = meet(place, listener)
    other, _ = meet(place, listener)
    link.send(b"x" * 100)
    assert collect(listener, 1) == [Arrival(peer, b"x" * 100)]
    link.send(b"x" * 101)
    assert collect(listener, 1) == [Arrival(peer, None)]
    assert listener.refused == 1
    with pytest.raises(NotConnected):
        link.receive(PATIENCE_S)
    other.send(b"still here")
    assert [arrival.message for arrival in collect(listener, 1)] == [b"still here"]
    link.close()
    assert listener.poll(0.05) == []


def test_a_large_message_right_behind_the_hello(place: Place) -> None:
    listener = place.listen(hello_bytes=100)
    link = place.dial(PATIENCE_S)
    large = pattern(200_000)
    sender = threading.Thread(target=send_all, args=(link, [b"hello", large, b"small", large]))
    sender.start()
    got: list[bytes | None] = []
    while len(got) < 4:
        for peer, message in listener.poll(PATIENCE_S):
            listener.limit(peer, 200_000)
            got.append(message)
    sender.join()
    assert got == [b"hello", large, b"small", large]
    assert listener.refused == 0


def test_a_large_message_right_behind_the_hello_of_a_peer_that_is_not_let_in(place: Place) -> None:
    listener = place.listen(hello_bytes=100)
    for drop in (False, True):
        link = place.dial(PATIENCE_S)
        link.send(b"hello")
        link.send(pattern(50_000))
        [(peer, message)] = collect(listener, 1)
        assert message == b"hello"
        if drop:
            listener.drop(peer)
            assert listener.poll(0.05) == []
        else:
            assert collect(listener, 1) == [Arrival(peer, None)]
        assert listener.refused == 1


# ---- dialling -------------------------------------------------------------------------------------------


def test_dialling_where_nobody_listens(place: Place) -> None:
    if place.address.endswith("*"):
        place.listen().close()
    with pytest.raises(NotConnected, match="cannot connect"):
        dial(place.address)
    started = time.monotonic()
    with pytest.raises(NotConnected, match="cannot connect"):
        dial(place.address, 0.1)
    assert 0.1 <= time.monotonic() - started < 2


def test_dialling_before_somebody_listens(place: Place) -> None:
    place.listen().close()  # fixes a port
    links: list[Link] = []
    dialler = threading.Thread(target=lambda: links.append(place.dial(PATIENCE_S)))
    dialler.start()
    time.sleep(0.05)
    listener = place.listen()
    dialler.join()
    links[0].send(b"hello")
    assert collect(listener, 1)[0].message == b"hello"
