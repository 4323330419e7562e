"""``fibernb logs NAME [--rank N]``: what the hub or an engine has written."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from fibernb import config
from fibernb.cli.output import show
from fibernb.errors import ClusterError
from fibernb.hub import place
from fibernb.hub.connection import read_connection

HELP: Final = "Show the log of a cluster's hub, or what one of its engines has written."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of the cluster, or its directory or connection file")
    parser.add_argument("--rank", type=int, metavar="N", help="of the engine whose output to show")
    parser.add_argument("--lines", type=int, default=100, metavar="N", help="how many at most (default 100)")


def run(options: argparse.Namespace) -> int:
    directory = Path(read_connection(options.name, config.load()).directory)
    found = [path for path in _files(directory, options.rank) if path.exists()]
    if not found:
        raise ClusterError(f"cluster {directory.name} has no log of rank {options.rank}: no engine has sat there yet")
    texts = {path.name: place.last_lines(path, options.lines) for path in found}
    show(texts, "\n".join(_titled(texts)), options.json)
    return 0


def _files(directory: Path, rank: int | None) -> list[Path]:
    if rank is None:
        return [directory / place.LOG_NAME]
    logs = directory / place.LOGS_NAME
    return [logs / f"rank-{rank}.log", logs / f"rank-{rank}.native.log"]


def _titled(texts: dict[str, str]) -> list[str]:
    """A heading for each file, unless there is only one with anything in it."""
    filled = {name: text for name, text in texts.items() if text}
    return list(filled.values()) if len(filled) < 2 else [f"==> {name} <==\n{text}" for name, text in filled.items()]
