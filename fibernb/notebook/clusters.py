"""Which cluster a notebook uses, and how it is found again after the kernel was restarted."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fibernb import config as configuration
from fibernb.client import api
from fibernb.client.cluster import Cluster
from fibernb.errors import ConfigError, FibernbError, NotConnected
from fibernb.hub.connection import Connection, list_connections

MARK_NAME: Final = "notebook.json"
SETTLE_S: Final = 5.0


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Left in a cluster's directory by the notebook that started it."""

    notebook: str = ""  # its path, where the front end tells
    directory: str = ""  # in which its kernel worked


class Clusters:
    """Starts, finds and leaves clusters for one notebook."""

    def __init__(self) -> None:
        self._marked: weakref.WeakSet[Cluster] = weakref.WeakSet()
        self._told: set[tuple[str, bool]] = set()

    def current(self) -> Cluster:
        """The cluster to use, started if there is none."""
        cluster = api.current_cluster()
        if cluster.size == 0:  # perhaps because the hub has not said yet how many there are
            settle(cluster)
        if cluster.owned and cluster not in self._marked:
            self._marked.add(cluster)
            self.tell_of_earlier()
            write_mark(cluster.directory, here())
        return cluster

    def tell_of_earlier(self) -> None:
        """Say of a cluster that an earlier kernel of this notebook has left running how it is taken up; once."""
        own = api.current_cluster().name if self.in_use() else ""
        try:
            earlier = earlier_of(self.running(), here(), own)
        except (OSError, FibernbError):  # settings that cannot be used, say: whoever needs them is told
            return
        if earlier is None or (earlier.name, bool(own)) in self._told:
            return
        self._told.add((earlier.name, bool(own)))
        name = earlier.name
        how = f"%fiber stop, and then %fiber attach {name}," if own else "%fiber attach"
        print(f"cluster {name}, which this notebook started before, still runs: {how} takes it up again")

    def in_use(self) -> bool:
        """Whether this notebook uses a cluster."""
        return api.is_initialized()

    def size(self) -> int:
        """How many seats the cluster in use has, as far as is known here; 0 without one."""
        return api.current_cluster().size if self.in_use() else 0

    def begin_cell(self, *_: object) -> None:
        """A cell begins: its tasks work in the notebook's directory, with its ``sys.path``, as these are now."""
        if self.in_use():
            with contextlib.suppress(OSError, FibernbError):  # a directory or a cluster that has gone: see who needs it
                api.current_cluster().adopt()

    def leave_running(self) -> None:
        """The kernel will be restarted: the cluster outlives it, for as long as its lease."""
        if self.in_use():
            api.current_cluster().owned = False

    def running(self) -> list[Connection]:
        """The clusters of this user on this host."""
        return list_connections(configuration.load())

    def forget(self) -> None:
        """This notebook uses no cluster any more."""
        api.shutdown()

    def existing(self) -> Cluster:
        """The cluster in use. Raises `NotConnected` if there is none."""
        if not self.in_use():
            raise NotConnected("this notebook uses no cluster: `%fiber scale 4` starts one, `%fiber attach` finds one")
        return self.current()

    def start(self, workers: int | None, backend: str | None, name: str | None, options: Mapping[str, Any]) -> Cluster:
        """Start a cluster, or give the one in use if it is the one that is meant.

        Raises `ConfigError` if it is another, or if settings are given that it could only begin with.
        """
        self._check_meant(name)
        if options and self.in_use():
            raise ConfigError(
                f"cluster {api.current_cluster().name} runs already, and settings hold from the start on: "
                "%fiber stop ends it, and then it can be started with others"
            )
        settle(api.init(workers, backend, name, **options))
        return self.current()

    def attach(self, name: str | None) -> Cluster:
        """Use a cluster that runs: by name, or the only one, or the latest that this notebook started.

        Raises `NotConnected` when none runs, `ConfigError` when it is not clear which one is meant.
        """
        if self.in_use():
            self._check_meant(name)
            return self.current()
        connection = None if name is not None else choose(self.running(), here())
        cluster = api.connect(name if connection is None else connection.directory)
        cluster.owned = cluster.owned or read_mark(cluster.directory) == here()
        return self.current()

    def _check_meant(self, name: str | None) -> None:
        if name is None or not self.in_use():
            return
        cluster = api.current_cluster()
        if name not in (cluster.name, str(cluster.directory)):
            raise ConfigError(
                f"this notebook uses cluster {cluster.name}, not {name}: %fiber detach leaves that one running, "
                "%fiber stop ends it; then try again"
            )


def settle(cluster: Cluster) -> None:
    """Wait until the number of seats that was declared is the one that this process knows."""
    declared = cluster.status().seats
    session = cluster.session
    session.wait(lambda: session.seats is not None and session.seats.seats == declared, SETTLE_S)


def here() -> Mark:
    """The mark of this notebook."""
    return Mark(notebook=os.environ.get("JPY_SESSION_NAME", ""), directory=os.getcwd())


def write_mark(directory: Path, mark: Mark) -> None:
    """Leave a mark in the directory of a cluster."""
    (directory / MARK_NAME).write_bytes(msgspec.json.encode(mark))


def read_mark(directory: Path) -> Mark:
    """The mark in the directory of a cluster; an empty one if there is none."""
    try:
        return msgspec.json.decode((directory / MARK_NAME).read_bytes(), type=Mark)
    except (OSError, msgspec.DecodeError):
        return Mark()


def earlier_of(running: Sequence[Connection], mark: Mark, own: str) -> Connection | None:
    """The latest cluster with the mark of this notebook, other than its ``own``; None where notebooks have no names."""
    theirs = [connection for connection in running if connection.name != own and mark.notebook]
    left = [connection for connection in theirs if read_mark(Path(connection.directory)) == mark]
    return max(left, key=lambda connection: connection.started_at, default=None)


def choose(running: Sequence[Connection], mark: Mark) -> Connection:
    """The only cluster, or the latest with the mark of this notebook; failing that, with its directory."""
    if not running:
        raise NotConnected("no cluster of yours runs here: `%fiber scale 4` starts one")
    if len(running) == 1:
        return running[0]
    marks = {connection.name: read_mark(Path(connection.directory)) for connection in running}
    ours = [connection for connection in running if marks[connection.name] == mark and mark.notebook]
    ours = ours or [connection for connection in running if marks[connection.name].directory == mark.directory]
    if ours:
        return max(ours, key=lambda connection: connection.started_at)
    names = ", ".join(connection.name for connection in running)
    raise ConfigError(f"several clusters run: {names}. Say which one: %fiber attach {running[0].name}")
