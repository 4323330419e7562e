"""The listener, and who is to hear what each peer says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from fibernb.core.messages import Message
from fibernb.errors import ProtocolError
from fibernb.hub.logs import Sparingly
from fibernb.transport import Listener, Peer
from fibernb.wire import codec
from fibernb.wire.handshake import Refused

logger: Final = logging.getLogger(__name__)

Hears: TypeAlias = Callable[[bytes | None], None]  # None: the peer has gone


class Switchboard:
    """Hands what arrives to whom it is for; a peer without a hearer is a stranger.

    Parameters
    ----------
    stranger : hears the first message of a peer.
    """

    def __init__(self, listener: Listener, stranger: Callable[[Peer, bytes], None]) -> None:
        self._listener = listener
        self._stranger = stranger
        self._hearers: dict[Peer, Hears] = {}
        self._dropped: set[Peer] = set()  # in this turn: what has been read of them already is not heard
        self._held: list[tuple[Peer, bytes | None]] | None = None
        self._privileged: set[Peer] = set()  # heard even while others are held
        self._postponed: set[Peer] = set()  # strangers to be met at the release
        self._undeliverable: list[Peer] = []  # to be dropped with the next turn, when nobody is in the middle of things
        self._refused = 0
        self._complaints = Sparingly(logger)

    @property
    def refused(self) -> int:
        """How many peers were turned away for what they sent."""
        return self._refused + self._listener.refused

    def turn(self, timeout_s: float | None) -> None:
        """Wait for something to arrive and have it heard."""
        for peer, data in self._listener.poll(0.0 if self._undeliverable else timeout_s):
            self._hear(peer, data)
        self._dropped.clear()
        if self._undeliverable:
            self._drop_undeliverable()

    def admit(self, peer: Peer, hears: Hears, *, privileged: bool = False) -> None:
        """From now on ``hears`` gets what this peer sends, a ``privileged`` one even while others are held."""
        self._listener.limit(peer, codec.MAX_MESSAGE_BYTES)
        self._hearers[peer] = hears
        if privileged:
            self._privileged.add(peer)

    def hold(self) -> None:
        """Keep what others than the privileged send until `release`."""
        self._held = []

    @property
    def holds(self) -> bool:
        return self._held is not None

    def postpone(self, peer: Peer, data: bytes) -> None:
        """Meet a stranger whose hello is good, and hear what it sends after it, only at the `release`."""
        assert self._held is not None
        self._listener.limit(peer, codec.MAX_MESSAGE_BYTES)
        self._postponed.add(peer)
        self._held.append((peer, data))

    def release(self) -> None:
        held, self._held = self._held or [], None
        self._postponed.clear()
        for peer, data in held:
            self._hear(peer, data)

    def send(self, peer: Peer | None, message: Message) -> None:
        """Encode and queue a message. Nothing happens when there is no peer, or it has gone."""
        if peer is None:
            return
        try:
            self._listener.send(peer, codec.encode(message))
        except ProtocolError as error:
            logger.error("a peer is dropped, for it cannot be told what it must hear: %s", error)
            self._undeliverable.append(peer)

    def refuse(self, peer: Peer, answer: Refused) -> None:
        """Turn a peer away that may not come in, and count it."""
        self._refused += 1
        self.turn_away(peer, answer)

    def turn_away(self, peer: Peer, answer: Refused) -> None:
        """Answer a peer for which there is no place, such as an engine that was given up while it was starting."""
        self._complaints.warning(f"refused a peer ({answer.kind}): {answer.reason}")
        self.send(peer, answer)
        self.drop(peer)

    def drop(self, peer: Peer | None) -> None:
        """Close a peer's link once what is queued for it has left; its hearer is not told."""
        if peer is not None:
            self._forget(peer)
            self._dropped.add(peer)
            self._listener.drop(peer)

    def close(self) -> None:
        self._listener.close()

    def _hear(self, peer: Peer, data: bytes | None) -> None:
        hears = self._hearers.get(peer)
        if self._held is not None and self._must_wait(peer, hears is not None):
            self._held.append((peer, data))
        elif hears is None:
            if data is not None and peer not in self._dropped:
                self._stranger(peer, data)
        elif data is None:
            self._forget(peer)
            hears(None)
        else:
            try:
                hears(data)
            except ProtocolError as error:
                hears(None)
                self.refuse(peer, Refused(kind="protocol", reason=str(error)))

    def _must_wait(self, peer: Peer, is_known: bool) -> bool:
        return peer in self._postponed or (is_known and peer not in self._privileged)

    def _drop_undeliverable(self) -> None:
        peers, self._undeliverable = self._undeliverable, []
        for peer in peers:
            hears = self._hearers.get(peer)
            if hears is not None:
                hears(None)
            self.drop(peer)

    def _forget(self, peer: Peer) -> None:
        self._hearers.pop(peer, None)
        self._privileged.discard(peer)
