"""The seam between messages and the network: links that dial, listeners that are dialled.

Messages are opaque bytes, whole, in order, none lost while the link lives. Three transports pass the same contract
tests: Unix sockets (`fibernb.transport.unix`: the fastest on one host), ZeroMQ (`fibernb.transport.zeromq`) and one in
memory for tests (`fibernb.transport.memory`).

An address is ``unix:PATH``, ``zmq+ipc:PATH``, ``zmq+tcp:HOST:PORT`` or ``memory:NAME``.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

Peer: TypeAlias = int


class Arrival(NamedTuple):
    """A message from a peer; None when the peer has gone, or sent what is no message of this transport."""

    peer: Peer
    message: bytes | None


class Link(Protocol):
    """The dialling end. ``send`` may be called from any thread; ``receive`` from one at a time."""

    def send(self, message: bytes) -> None:
        """Hand a message over, waiting while the other side is slow. `NotConnected` when the link is gone.

        A call that a KeyboardInterrupt ends has handed over the whole message or nothing.
        """

    def receive(self, timeout_s: float | None = None) -> list[bytes]:
        """Messages that have arrived, waiting for the first; [] after ``timeout_s``.

        `NotConnected` when the link is gone and everything that had arrived has been returned.
        """

    @property
    def quiet(self) -> bool:
        """Whether nothing that has arrived is inside of the link, so that ``fileno`` tells of all that there is."""

    def fileno(self) -> int:
        """A descriptor to poll: readable when ``receive(0)`` may have something.

        Call ``receive(0)`` once before waiting on it, unless the link is ``quiet``.
        """

    def close(self) -> None:
        """Close at once; harmless twice."""


class Listener(Protocol):
    """The dialled end, used from one thread (but for ``wake``)."""

    @property
    def address(self) -> str: ...

    @property
    def refused(self) -> int:
        """How many peers were dropped for breaking the transport's framing or its size limit."""

    def poll(self, timeout_s: float | None) -> list[Arrival]:
        """What has arrived, waiting for the first; [] after ``timeout_s`` or ``wake``."""

    def send(self, peer: Peer, message: bytes) -> None:
        """Queue a message; never waits, and does nothing for a peer that has gone."""

    def limit(self, peer: Peer, max_bytes: int) -> None:
        """The largest message that this peer may send from now on (a new peer: `hello_bytes` of the listener).

        What came right behind a message that `poll` has returned is judged by the next `poll`, hence by this limit.
        """

    def drop(self, peer: Peer) -> None:
        """Close a peer's link once what is queued for it has been sent, without an `Arrival`."""

    def wake(self) -> None:
        """Make ``poll`` return; from any thread or signal handler."""

    def close(self) -> None:
        """Close everything and remove the socket file; what is queued gets a short while to leave."""
