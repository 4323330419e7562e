"""``fibernb hub``: be the hub of a cluster whose directory has been set up."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
from pathlib import Path
from typing import Final

from fibernb.hub.spawn import spawn_node

HELP: Final = "Be the hub of a cluster. FiberNB starts this by itself."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--directory", required=True, type=Path, help="the cluster's own directory")
    parser.add_argument("--resume", action="store_true", help="take over from a hub that was killed")
    parser.add_argument("--lock", type=int, help="descriptor that holds the directory's lock")
    parser.add_argument("--says", type=int, help="descriptor of a pipe to tell on that the hub is ready, or why not")


def run(options: argparse.Namespace) -> int:
    for descriptor in (options.lock, options.says):
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # The node has much to import, so it starts before we import what we need.
    node_pid = 0 if options.resume else spawn_node(str(options.directory))
    process = importlib.import_module("fibernb.hub.process")
    code: int = process.serve(
        options.directory, resume=options.resume, node_pid=node_pid, lock=options.lock, says=options.says
    )
    return code
