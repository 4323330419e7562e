"""Reaches the hub of a cluster: the first time, and again when the link broke or the hub was killed."""

from __future__ import annotations

import os
import platform
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from fibernb import transport
from fibernb.config import Config
from fibernb.core.messages import Recovered
from fibernb.errors import AuthError, ClusterError, FibernbError, NotConnected, ProtocolError, VersionMismatch
from fibernb.hub import launch, place
from fibernb.hub.connection import Connection, is_alive, read_connection
from fibernb.model import CLIENT_BITS, BlockId, ClientId, EngineId
from fibernb.serialize import Sink, Source
from fibernb.store.agent import agent_for, drop_agent
from fibernb.transport import Link
from fibernb.wire import codec
from fibernb.wire.admission import credentials
from fibernb.wire.direct import DOOR, DoorHello
from fibernb.wire.handshake import ClientHello, Refused, Welcome

HELLO_TIMEOUT_S: Final = 10.0
RECOVERY_TIMEOUT_S: Final = 30.0  # a hub that starts again waits for its engines first
RETRY_S: Final = 0.05

REFUSALS: Final[dict[str, type[FibernbError]]] = {
    "auth": AuthError,
    "version": VersionMismatch,
    "protocol": ProtocolError,
}


class Opened(NamedTuple):
    """A link whose hello has been answered, and what arrived behind the answer."""

    link: Link
    client: ClientId
    welcome: Welcome
    fresh: bool
    backlog: list[bytes]


class Store(Sink, Source, Protocol):
    """Where large values go, and come from."""

    def outlives(self, blocks: Sequence[BlockId]) -> bool:
        """Whether the store that these blocks were written to is still there."""

    def prepare(self, after_s: float) -> None:
        """In so many seconds have everything made ready for the first large value, unless the session is over then."""


class Connector(Protocol):
    """The way to one cluster."""

    @property
    def name(self) -> str: ...

    @property
    def directory(self) -> Path | None:
        """Where the cluster's processes on this host meet; None when there is none here."""

    def connect(self) -> Opened:
        """Open the first link."""

    def reconnect(self, client: ClientId) -> Opened:
        """Open a link again, starting the hub if it has died; `NotConnected` when the cluster is gone."""

    def dial_engine(self, engine: EngineId) -> Link:
        """A link to the door of an engine of this host, with a hello on its way; `NotConnected` if nobody is there."""

    def store(self, client: ClientId) -> Store | None:
        """The object store of this host; None where values travel in messages only."""

    def leave(self) -> None:
        """The session is over: let go of the store."""


class HubConnector:
    """Dials the hub of a cluster on this host.

    Parameters
    ----------
    connection : where the hub was found.
    config : settings for a hub that must be started again.
    patience_s : how long to try before the cluster counts as gone.
    engine : the one that this client lives in, if it does; such a client never starts a hub.
    """

    def __init__(
        self, connection: Connection, config: Config, patience_s: float, engine: EngineId | None = None
    ) -> None:
        self._connection = connection
        self._config = config
        self._patience_s = patience_s
        self._engine = engine
        self._instance = uuid.uuid4().hex

    @property
    def name(self) -> str:
        return self._connection.name

    @property
    def connection(self) -> Connection:
        """Where the cluster is."""
        return self._connection

    @property
    def directory(self) -> Path:
        return Path(self._connection.directory)

    def connect(self) -> Opened:
        if self._engine is not None:
            return self._try_for_a_while(self._first)
        self._revive_hub()
        try:
            return self._first()
        except NotConnected:
            if not place.has_died(self.directory):
                raise
            self._revive_hub()  # it was killed just then
            return self._first()

    def _first(self) -> Opened:
        while True:
            opened = self._open(random_client(), resumes=False)
            if opened is not None:
                return opened

    def _revive_hub(self) -> None:
        """A hub that was killed is started again, as long as its engines wait for it."""
        if place.is_locked(self.directory):
            return
        if not is_alive(self._connection):
            raise NotConnected(
                f"cluster {self.name} has died, and its engines with it: start a new one, "
                "or see with `fibernb list` which ones run"
            )
        self._connection = launch.launch(self._config, directory=self.directory, resume=True)

    def reconnect(self, client: ClientId) -> Opened:
        return self._try_for_a_while(lambda: self._reopen(client))

    def _try_for_a_while(self, open_: Callable[[], Opened]) -> Opened:
        """Open a link to a hub that may just be starting again."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                opened = open_()
            except (AuthError, VersionMismatch, ProtocolError):
                raise
            except (ClusterError, OSError) as error:
                self._check_exists(error)
                if time.monotonic() > deadline:
                    raise NotConnected(f"{self._gone()}: {error}") from error
                time.sleep(RETRY_S)
            else:
                return opened

    def store(self, client: ClientId) -> Store | None:
        owner = f"client {client:x}" if self._engine is None else f"engine {self._engine}"
        return agent_for(self._connection.directory, self._connection.key, owner, self._config.inline_bytes)

    def dial_engine(self, engine: EngineId) -> Link:
        link = transport.dial(f"unix:{self.directory / DOOR.format(engine=engine)}")
        try:
            link.send(codec.encode(DoorHello(credentials=credentials(self._connection.key))))
        except BaseException:
            link.close()
            raise
        return link

    def leave(self) -> None:
        if self._engine is None:  # an engine goes on without its session
            drop_agent(self._connection.directory, self._connection.key)

    def _reopen(self, client: ClientId) -> Opened:
        if self._engine is None and not place.is_locked(self.directory):
            self._check_exists(None)
            launch.launch(self._config, directory=self.directory, resume=True)
        self._connection = read_connection(self.directory)
        opened = self._open(client, resumes=True)
        if opened is None:
            raise NotConnected(f"another process uses client number {client} of cluster {self.name}")
        return opened

    def _check_exists(self, cause: BaseException | None) -> None:
        if not self.directory.exists():
            raise NotConnected(f"{self._gone()}: it has ended and its directory has been removed") from cause

    def _gone(self) -> str:
        return f"cluster {self.name} is gone"

    def _open(self, client: ClientId, resumes: bool) -> Opened | None:
        return say_hello(self._connection.address, self._hello(client, resumes))

    def _hello(self, client: ClientId, resumes: bool) -> ClientHello:
        return ClientHello(
            credentials=credentials(self._connection.key),
            client=client,
            instance=self._instance,
            lease_s=self._config.lease_s,
            pid=os.getpid(),
            host=platform.node(),
            resumes=resumes,
            engine=self._engine,
        )


def random_client() -> ClientId:
    """A client number that nobody else has, most likely. Never 0, so that no task has the id 0."""
    return 1 + int.from_bytes(os.urandom(4), "little") % ((1 << CLIENT_BITS) - 1)


def say_hello(address: str, hello: ClientHello) -> Opened | None:
    """Dial a hub and say hello; None when the client number is taken."""
    link = transport.dial(address)
    try:
        link.send(codec.encode(hello))
        opened = _answered(link, hello)
    except BaseException:
        link.close()
        raise
    if opened is None:
        link.close()
    return opened


def _answered(link: Link, hello: ClientHello) -> Opened | None:
    messages: list[bytes] = []
    answer = _next(link, messages, HELLO_TIMEOUT_S)
    if isinstance(answer, Refused):
        if answer.kind == "taken" and not hello.resumes:
            return None
        raise REFUSALS.get(answer.kind, NotConnected)(answer.reason)
    if not isinstance(answer, Welcome):
        raise ProtocolError(f"the hub answered a hello with {type(answer).__name__}")
    fresh = _next_is_fresh(link, messages) if hello.resumes else True
    return Opened(link, hello.client, answer, fresh, messages)


def _next_is_fresh(link: Link, messages: list[bytes]) -> bool:
    recovered = _next(link, messages, RECOVERY_TIMEOUT_S)
    if not isinstance(recovered, Recovered):
        raise ProtocolError(f"the hub answered a returning client with {type(recovered).__name__}")
    return recovered.fresh


def _next(link: Link, messages: list[bytes], timeout_s: float) -> object:
    """The next message of the link; those that arrived with it stay in ``messages``."""
    if not messages:
        messages += link.receive(timeout_s)
    if not messages:
        raise NotConnected(f"the hub did not answer within {timeout_s:g} s")
    return codec.to_client.decode(messages.pop(0))
