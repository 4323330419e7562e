"""``fibernb node``: be the process that forks a cluster's engines."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Final

from fibernb.engine import node
from fibernb.errors import NotConnected
from fibernb.hub import connection

HELP: Final = "Be the node process of a cluster. Its hub starts this by itself."
POLL_S: Final = 0.005


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--directory", required=True, type=Path, help="the cluster's own directory")


def run(options: argparse.Namespace) -> int:
    _wait_for_connection(options.directory)
    return node.main(options.directory)


def _wait_for_connection(directory: Path) -> None:
    """The hub starts us first and writes the connection file then, unless it ends before."""
    hub = os.getppid()
    while not (directory / connection.FILE_NAME).exists():
        if os.getppid() != hub or not directory.exists():
            raise NotConnected(f"the hub of {directory} ended before it could be reached")
        time.sleep(POLL_S)
