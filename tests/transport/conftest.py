"""Places to listen at, and what waits for things to happen there."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fibernb.transport import Arrival, Link, Listener, dial, listen

PATIENCE_S = 10.0

# Listens at the address of its first argument, says where, and sends everything back.
LISTENER_PROGRAM = """
import sys
from fibernb.transport import listen
listener = listen(sys.argv[1])
print(listener.address, flush=True)
while True:
    for peer, message in listener.poll(None):
        listener.send(peer, message)
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="fnb") as name:
        yield Path(name)


class Place:
    """Listens and dials at one address, and closes everything in the end."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._closing: list[Callable[[], None]] = []

    def listen(self, hello_bytes: int | None = None) -> Listener:
        listener = listen(self.address, hello_bytes)
        self.address = listener.address
        self._closing.append(listener.close)
        return listener

    def dial(self, timeout_s: float = 0.0) -> Link:
        link = dial(self.address, timeout_s)
        self._closing.append(link.close)
        return link

    def close(self) -> None:
        for close in reversed(self._closing):
            close()


def collect(listener: Listener, count: int) -> list[Arrival]:
    """Poll until that many have arrived."""
    arrivals: list[Arrival] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(arrivals) < count:
        assert time.monotonic() < deadline, f"{len(arrivals)} of {count} arrivals came"
        arrivals += listener.poll(0.1)
    return arrivals


def collect_messages(link: Link, count: int) -> list[bytes]:
    """Receive until that many have arrived."""
    messages: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages came"
        messages += link.receive(0.1)
    return messages


def meet(place: Place, listener: Listener) -> tuple[Link, int]:
    """A new link, and the peer that it is to the listener."""
    link = place.dial(PATIENCE_S)
    link.send(b"hello")
    arrivals = collect(listener, 1)
    assert [arrival.message for arrival in arrivals] == [b"hello"]
    return link, arrivals[0].peer


def send_all(link: Link, messages: list[bytes]) -> None:
    for message in messages:
        link.send(message)
