"""Real clusters for tests: a hub, a node and engines as processes, and a raw link to talk to the hub with."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from fibernb import serialize, transport
from fibernb.config import Config
from fibernb.core.messages import (
    Acknowledge,
    DefineFunction,
    Deliver,
    Message,
    Recovered,
    Scale,
    Status,
    StatusRequest,
    Submit,
)
from fibernb.errors import NotConnected
from fibernb.hub.connection import Connection, read_connection
from fibernb.hub.launch import launch
from fibernb.model import Call, Digest, Outcome, Result, TaskId, TaskOptions, first_id
from fibernb.wire import codec, credentials
from fibernb.wire.handshake import ClientHello, Welcome

PATIENCE_S = 20.0

M = TypeVar("M", bound=Message)


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
    """The first true value of the condition; fails loudly after ``timeout_s``."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {timeout_s} s in vain until {what}")


def processes(directory: str) -> list[int]:
    """Every process whose command line names a cluster's directory."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if directory.encode() in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


class RawClient:
    """A client without anything of `fibernb.client`: what it sends and receives is in the test's hands."""

    def __init__(self, connection: Connection, client: int = 5, lease_s: float = 60.0, resumes: bool = False) -> None:
        self.first = first_id(client)
        self.results: dict[TaskId, Result] = {}
        self.status_request = 0
        self._arrived: list[bytes] = []
        self._link = transport.dial(connection.address, timeout_s=2.0)
        self.tell(
            ClientHello(
                credentials=credentials(connection.key),
                client=client,
                instance="a",
                lease_s=lease_s,
                pid=os.getpid(),
                resumes=resumes,
            )
        )
        self.welcome = self.wait_for(Welcome)
        self.recovered = self.wait_for(Recovered)

    def tell(self, message: Message) -> None:
        self._link.send(codec.encode(message))

    def close(self) -> None:
        self._link.close()

    def next(self, timeout_s: float = PATIENCE_S) -> Message:
        if not self._arrived:
            self._arrived = self._link.receive(timeout_s)
        if not self._arrived:
            raise AssertionError("nothing came")
        message = codec.to_client.decode(self._arrived.pop(0))
        if isinstance(message, Deliver):
            self.results |= {result.id: result for result in message.results}
            self.tell(Acknowledge(sequence=message.sequence))
        return message

    def wait_for(self, kind: type[M]) -> M:
        while True:
            message = self.next()
            if isinstance(message, kind):
                return message

    def wait_gone(self) -> None:
        try:
            while True:
                self._link.receive(PATIENCE_S)
        except NotConnected:
            return

    def status(self) -> Status:
        self.status_request += 1
        self.tell(StatusRequest(request=self.status_request))
        return self.wait_for(Status)

    def scale(self, seats: int) -> None:
        self.tell(Scale(seats=seats))
        wait_until(lambda: self.status().ready == seats, f"{seats} seats are ready")

    def define(self, function: Callable[..., Any]) -> Digest:
        digest, code = serialize.dumps_function(function)
        self.tell(DefineFunction(digest=digest, code=code, name=function.__name__))
        return digest

    def submit(self, digest: Digest, arguments: dict[int, Any], **options: Any) -> None:
        """One call for each argument; the keys count the calls."""
        calls = [Call(self.first + key, _packed(value)) for key, value in arguments.items()]
        self.tell(Submit(function=digest, calls=calls, options=TaskOptions(**options)))

    def values(self, keys: range) -> list[Any]:
        """The results of calls, once they are all there."""
        while any(self.first + key not in self.results for key in keys):
            self.next()
        return [self._value(self.first + key) for key in keys]

    def _value(self, task: TaskId) -> Any:
        result = self.results[task]
        return serialize.loads(result.value) if result.outcome is Outcome.OK else serialize.loads_error(result.value)


def _packed(value: Any) -> bytes:
    return serialize.dumps_call((value,), {}, type(None))[0]


@contextmanager
def short_directory() -> Iterator[Path]:
    """Sockets want a shorter path than pytest's directories have."""
    path = Path(tempfile.mkdtemp(prefix="fnb-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Live:
    """A cluster of processes."""

    def __init__(self, connection: Connection, config: Config) -> None:
        self.connection = connection
        self.config = config
        self.directory = Path(connection.directory)
        self._links: list[RawClient | transport.Link] = []

    def client(self, **options: Any) -> RawClient:
        """A client whose link is closed at the end of the test at the latest."""
        client = RawClient(read_connection(self.directory), **options)
        self._links.append(client)
        return client

    def dial(self) -> transport.Link:
        """A link that has said nothing yet."""
        link = transport.dial(self.connection.address, timeout_s=2.0)
        self._links.append(link)
        return link

    def close_links(self) -> None:
        for link in self._links:
            link.close()

    def kill_hub(self) -> None:
        os.kill(self.connection.pid, signal.SIGKILL)
        wait_until(lambda: not is_running(self.connection.pid), "the hub is dead")

    def resume(self) -> None:
        self.connection = launch(self.config, directory=self.directory, resume=True)

    def wait_gone(self, timeout_s: float = PATIENCE_S) -> None:
        wait_until(lambda: not processes(str(self.directory)), "no process is left", timeout_s)
        wait_until(lambda: not self.directory.exists(), "the directory is gone", timeout_s)


def is_running(pid: int) -> bool:
    """Whether a process lives; zombies do not."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


@contextmanager
def live(**settings: Any) -> Iterator[Live]:
    """A cluster that the test may spoil as it likes; whatever is left of it is killed."""
    with short_directory() as base:
        usual: dict[str, Any] = {"runtime_dir": str(base / "run"), "lease_s": 20.0, "preload": ()}
        config = Config(**(usual | settings))
        cluster = Live(launch(config), config)
        try:
            yield cluster
        finally:
            cluster.close_links()
            for pid in processes(str(cluster.directory)):
                if pid != os.getpid():
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not processes(str(cluster.directory)), "all are killed")
