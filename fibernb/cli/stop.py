"""``fibernb stop NAME|--all``: end clusters."""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path
from typing import Final

from fibernb import config
from fibernb.cli.link import talk_to
from fibernb.cli.output import show
from fibernb.core.messages import Stop
from fibernb.errors import ClusterError
from fibernb.hub import place
from fibernb.hub.connection import Connection, is_fibernb_process, list_connections, read_connection

HELP: Final = "End a cluster, with everything that runs on it."
TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.01


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("name", metavar="NAME", nargs="?", help="of the cluster, or its directory or connection file")
    which.add_argument("--all", action="store_true", help="end all clusters of this user")


def run(options: argparse.Namespace) -> int:
    configuration = config.load()
    chosen = list_connections(configuration) if options.all else [read_connection(options.name, configuration)]
    for connection in chosen:
        _stop(connection)
    names = [connection.name for connection in chosen]
    show({"stopped": names}, f"stopped {', '.join(names)}" if names else "no clusters", options.json)
    return 0


def _stop(connection: Connection) -> None:
    """In order when the hub listens to us, by signals otherwise."""
    directory = Path(connection.directory)
    try:
        with talk_to(connection) as talk:
            talk.tell(Stop())
            talk.wait_closed(TIMEOUT_S)
    except ClusterError:
        _signal(connection.pid, signal.SIGTERM)
    if _wait_gone(directory):
        return
    for pid in (connection.pid, connection.node_pid):
        _signal(pid, signal.SIGKILL)
    place.remove(directory)


def _wait_gone(directory: Path) -> bool:
    """Wait for a hub that is ending to remove its directory; False when there is none that does."""
    end = time.monotonic() + TIMEOUT_S
    while place.is_locked(directory) and time.monotonic() < end:
        time.sleep(POLL_S)
    return not directory.exists()


def _signal(pid: int, number: signal.Signals) -> None:
    if is_fibernb_process(pid):
        os.kill(pid, number)
