"""Starts the node process. Imports next to nothing: it is the first thing that a hub does."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

READY: Final = b"ready"  # what a new hub says on the pipe on which it is waited for; anything else is an error


def spawn_node(directory: str) -> int:
    """Start the node process of the cluster in ``directory`` with our environment and output; returns its pid.

    Raises `OSError` when the system does not let us.
    """
    command = [sys.executable, "-P", "-m", "fibernb", "node", f"--directory={directory}"]
    usual = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD)  # whatever the hub does with them
    return os.posix_spawn(sys.executable, command, os.environ, setsigdef=usual, setsigmask=())
