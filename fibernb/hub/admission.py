"""Who may talk to the hub: the first message of a link, checked before anything else is read from it."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from fibernb.errors import ProtocolError
from fibernb.hub.limits import Limit
from fibernb.version import VERSION
from fibernb.wire import check, codec
from fibernb.wire.handshake import Hello, Refused, Welcome

MAX_REASON_CHARACTERS: Final = 500


class Identity(NamedTuple):
    """What the cluster is called, and the key that its members show."""

    name: str
    key: str


class Admission:
    """Checks hellos and writes the answers."""

    def __init__(self, identity: Identity, limit: Limit) -> None:
        self._identity = identity
        self._limit = limit

    def read(self, data: bytes) -> Hello | Refused:
        """The hello of a peer that may come in, or the answer to one that may not."""
        try:
            hello = codec.hello.decode(data)
        except ProtocolError as error:
            text = f"this is not the hello of a FiberNB process: {error}"
            return Refused(kind="protocol", reason=text[:MAX_REASON_CHARACTERS])
        return check(hello.credentials, self._identity.key) or hello

    def welcome(self) -> Welcome:
        return Welcome(
            cluster=self._identity.name,
            version=VERSION,
            hub_pid=os.getpid(),
            max_seats=self._limit.seats,
            limit=self._limit.reason,
        )
