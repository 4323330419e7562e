"""``fibernb list``: the clusters of this user."""

from __future__ import annotations

import argparse
import time
from typing import Final

import msgspec

from fibernb import config
from fibernb.cli.output import duration, show, table
from fibernb.hub.connection import list_connections

HELP: Final = "Show the clusters of this user, whatever notebook started them."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(options: argparse.Namespace) -> int:
    found = list_connections(config.load())
    public = [{key: value for key, value in msgspec.to_builtins(one).items() if key != "key"} for one in found]
    rows = [(one.name, one.host, one.pid, duration(time.time() - one.started_at), one.version) for one in found]
    text = table(("NAME", "HOST", "PID", "AGE", "VERSION"), rows) if rows else "no clusters"
    show(public, text, options.json)
    return 0
