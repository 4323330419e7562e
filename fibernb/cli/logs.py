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
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--rank", type=int, metavar="N", help="of the engine whose output to show")
    which.add_argument("--extra", type=int, metavar="N", help="the engine beside the seats whose output to show")
    parser.add_argument("--lines", type=int, default=100, metavar="N", help="how many at most (default 100)")


def run(options: argparse.Namespace) -> int:
    directory = Path(read_connection(options.name, config.load()).directory)
    rank = options.rank if options.extra is None else -options.extra
    found = [path for path in _files(directory, rank) if path.exists()]
    if not found:
        asked = f"rank {rank}" if options.extra is None else f"extra {options.extra}"
        raise ClusterError(f"cluster {directory.name} has no log of {asked}: no engine has sat there yet")
    texts = {path.name: place.last_lines(path, options.lines) for path in found}
    show(texts, "\n".join(_titled(texts)), options.json)
    return 0


def _files(directory: Path, rank: int | None) -> list[Path]:
    if rank is None:
        return [directory / place.LOG_NAME]
    return [place.engine_log(directory, rank), place.engine_log(directory, rank, "native")]


def _titled(texts: dict[str, str]) -> list[str]:
    """A heading for each file, unless there is only one with anything in it."""
    filled = {name: text for name, text in texts.items() if text}
    return list(filled.values()) if len(filled) < 2 else [f"==> {name} <==\n{text}" for name, text in filled.items()]
