from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fibernb import transport
from fibernb.client import dialing
from fibernb.client.dialing import HubConnector, random_client
from fibernb.config import Config
from fibernb.core.messages import HubStops, Recovered
from fibernb.errors import AuthError, ClusterError, FibernbError, NotConnected, ProtocolError, VersionMismatch
from fibernb.hub import launch as hub_launch
from fibernb.hub import place
from fibernb.hub.connection import Connection, write_connection
from fibernb.model import CLIENT_BITS
from fibernb.wire import codec
from fibernb.wire.handshake import ClientHello, Refused, Welcome

_numbers = itertools.count()
WELCOME = Welcome(cluster="c", version="0", hub_pid=1)


class Doorkeeper:
    """Answers each hello with the next of some answers."""

    def __init__(self, *answers: list[Any]) -> None:
        self.address = f"memory:doorkeeper-{next(_numbers)}"
        self.hellos: list[ClientHello] = []
        self._answers = iter(answers)
        self._listener = transport.listen(self.address)
        self._stopping = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._stopping:
            for peer, data in self._listener.poll(None):
                if data is not None:
                    hello: Any = codec.hello.decode(data)
                    self.hellos.append(hello)
                    for answer in next(self._answers):
                        self._listener.send(peer, codec.encode(answer))

    def close(self) -> None:
        self._stopping = True
        self._listener.wake()
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def keep() -> Iterator[Callable[..., Doorkeeper]]:
    keepers: list[Doorkeeper] = []

    def make(*answers: list[Any]) -> Doorkeeper:
        keepers.append(Doorkeeper(*answers))
        return keepers[-1]

    yield make
    for keeper in keepers:
        keeper.close()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """The directory of a cluster whose hub lives, as far as the lock tells."""
    path = tmp_path / "c"
    path.mkdir(mode=0o700)
    lock = place.take_lock(path)
    assert lock is not None
    yield path
    os.close(lock)


def connector_to(keeper: Doorkeeper, directory: Path, patience_s: float = 0.2, **options: Any) -> HubConnector:
    connection = Connection(name="c", address=keeper.address, key="k", pid=os.getpid(), directory=str(directory))
    write_connection(connection)
    return HubConnector(connection, Config(lease_s=3), patience_s, **options)


def test_client_numbers_are_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"\0\0\0\0", b"\xff\xff\xff\xff"):
        monkeypatch.setattr(os, "urandom", lambda _, data=data: data)
        assert 0 < random_client() < 2**CLIENT_BITS


def test_the_first_link(keep: Callable[..., Doorkeeper], directory: Path) -> None:
    keeper = keep([WELCOME, HubStops(reason="x")])
    opened = connector_to(keeper, directory).connect()
    assert (opened.welcome, opened.fresh) == (WELCOME, True)
    (hello,) = keeper.hellos
    assert (hello.client, hello.credentials.key, hello.lease_s, hello.resumes) == (opened.client, "k", 3, False)
    opened.link.close()


def test_a_number_that_is_taken_is_not_used(keep: Callable[..., Doorkeeper], directory: Path) -> None:
    keeper = keep([Refused(kind="taken", reason="x")], [WELCOME])
    opened = connector_to(keeper, directory).connect()
    assert keeper.hellos[0].client != keeper.hellos[1].client == opened.client
    opened.link.close()


@pytest.mark.parametrize(
    ("kind", "error"),
    [("auth", AuthError), ("version", VersionMismatch), ("protocol", ProtocolError), ("new kind", NotConnected)],
)
def test_refusals(keep: Callable[..., Doorkeeper], directory: Path, kind: str, error: type[FibernbError]) -> None:
    connector = connector_to(
        keep([Refused(kind=kind, reason="because")], [Refused(kind=kind, reason="because")]), directory
    )
    with pytest.raises(error, match="because"):
        connector.connect()
    if error is not NotConnected:
        with pytest.raises(error, match="because"):
            connector.reconnect(5)


def test_a_hub_that_answers_nonsense(keep: Callable[..., Doorkeeper], directory: Path) -> None:
    connector = connector_to(keep([HubStops(reason="x")], [WELCOME, HubStops(reason="x")]), directory)
    with pytest.raises(ProtocolError, match="HubStops"):
        connector.connect()
    with pytest.raises(ProtocolError, match="HubStops"):
        connector.reconnect(5)


def test_a_hub_that_does_not_answer(
    keep: Callable[..., Doorkeeper], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialing, "HELLO_TIMEOUT_S", 0.05)
    with pytest.raises(NotConnected, match="did not answer"):
        connector_to(keep([]), directory).connect()


def test_coming_back(keep: Callable[..., Doorkeeper], directory: Path) -> None:
    for fresh in (True, False):
        keeper = keep([WELCOME, Recovered(fresh=fresh)])
        opened = connector_to(keeper, directory).reconnect(5)
        assert opened.fresh is fresh
        assert (keeper.hellos[0].client, keeper.hellos[0].resumes) == (5, True)
        opened.link.close()


def test_patience(keep: Callable[..., Doorkeeper], directory: Path) -> None:
    keeper = keep()
    connector = connector_to(keeper, directory)
    keeper.close()
    with pytest.raises(NotConnected, match="cluster c is gone"):
        connector.reconnect(5)


def test_a_directory_that_is_gone(keep: Callable[..., Doorkeeper], directory: Path) -> None:
    keeper = keep()
    connector = connector_to(keeper, directory, patience_s=60)
    place.remove(directory)
    keeper.close()
    begun = time.monotonic()
    with pytest.raises(NotConnected, match="has ended"):
        connector.reconnect(5)
    assert time.monotonic() - begun < 10


def test_a_dead_hub_is_started_again(
    keep: Callable[..., Doorkeeper], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []

    def launch(config: Config, *, directory: Path, resume: bool) -> None:
        assert resume
        started.append(directory)
        if len(started) == 1:
            raise ClusterError("not yet")

    monkeypatch.setattr(hub_launch, "launch", launch)
    directory = tmp_path / "dead"
    directory.mkdir(mode=0o700)
    opened = connector_to(keep([WELCOME, Recovered(fresh=True)]), directory, patience_s=30).reconnect(5)
    assert started == [directory, directory]
    opened.link.close()


def test_an_engine_never_starts_a_hub(
    keep: Callable[..., Doorkeeper], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_launch, "launch", None)
    directory = tmp_path / "dead"
    directory.mkdir(mode=0o700)
    keeper = keep([WELCOME, Recovered(fresh=False)])
    opened = connector_to(keeper, directory, engine=9).reconnect(5)
    assert keeper.hellos[0].engine == 9
    opened.link.close()


def test_an_engine_waits_for_a_hub_that_is_just_starting_again(
    keep: Callable[..., Doorkeeper], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = keep([WELCOME])
    real, tries = dialing.say_hello, itertools.count()

    def say_hello(address: str, hello: ClientHello) -> dialing.Opened | None:
        if next(tries) < 3:
            raise NotConnected("nobody listens there any more")
        return real(address, hello)

    monkeypatch.setattr(dialing, "say_hello", say_hello)
    opened = connector_to(keeper, directory, patience_s=30, engine=9).connect()
    assert not keeper.hellos[0].resumes
    opened.link.close()
