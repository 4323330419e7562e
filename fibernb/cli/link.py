"""A short talk with the hub of a cluster, for the verbs that ask or tell one thing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from fibernb import config, transport
from fibernb.core.messages import Goodbye, Message
from fibernb.errors import AuthError, NotConnected, ProtocolError, VersionMismatch
from fibernb.hub import place
from fibernb.hub.connection import Connection
from fibernb.model import CLIENT_BITS
from fibernb.wire import codec, credentials
from fibernb.wire.handshake import ClientHello, Refused, Welcome

TIMEOUT_S: Final = 10.0

M = TypeVar("M", bound=Message)

_ERRORS: Final = {"auth": AuthError, "version": VersionMismatch, "protocol": ProtocolError}


class Talk:
    """An open link to a hub, as a client that says goodbye in the end."""

    def __init__(self, link: transport.Link, name: str) -> None:
        self._link = link
        self._name = name
        self._arrived: list[bytes] = []

    def tell(self, message: Message) -> None:
        self._link.send(codec.encode(message))

    def wait_for(self, kind: type[M], timeout_s: float = TIMEOUT_S) -> M:
        """The next message of a kind; others are passed over."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if not self._arrived:
                self._arrived = self._link.receive(max(0.0, end - time.monotonic()))
            while self._arrived:
                message = codec.to_client.decode(self._arrived.pop(0))
                if isinstance(message, kind):
                    return message
                if isinstance(message, Refused):
                    raise _ERRORS.get(message.kind, NotConnected)(message.reason)
        raise NotConnected(f"the hub of {self._name} does not answer; `fibernb stop {self._name}` ends it")

    def wait_closed(self, timeout_s: float = TIMEOUT_S) -> bool:
        """Wait until the hub hangs up; False when it does not."""
        end = time.monotonic() + timeout_s
        try:
            while time.monotonic() < end:
                self._link.receive(max(0.0, end - time.monotonic()))
        except NotConnected:
            return True
        return False


@contextmanager
def talk_to(connection: Connection) -> Iterator[Talk]:
    """Talk to the hub of a cluster. Raises `NotConnected`, `AuthError` or `VersionMismatch` when it does not let us."""
    try:
        link = transport.dial(connection.address, timeout_s=1.0)
    except NotConnected as error:
        _blame_death(connection, error)
        raise
    try:
        talk = Talk(link, connection.name)
        try:
            talk.tell(_hello(connection))
            talk.wait_for(Welcome)
        except NotConnected as error:
            _blame_death(connection, error)
            raise
        yield talk
        with suppress(NotConnected):  # the hub may have hung up first
            talk.tell(Goodbye())
    finally:
        link.close()


def _hello(connection: Connection) -> ClientHello:
    return ClientHello(
        credentials=credentials(connection.key),
        client=int.from_bytes(os.urandom(4), "big") % (1 << CLIENT_BITS),
        instance=os.urandom(8).hex(),
        lease_s=config.saved(Path(connection.directory)).lease_s,  # that the cluster waits for its owner as before
        pid=os.getpid(),
        host=os.uname().nodename,
    )


def _blame_death(connection: Connection, error: NotConnected) -> None:
    """Say so if a hub does not let us talk to it because it has died, at whatever moment until it has welcomed us."""
    if place.has_died(Path(connection.directory)):
        name = connection.name
        raise NotConnected(
            f"the hub of {name} has died: attach to the cluster to start it again, or end it with `fibernb stop {name}`"
        ) from error
