"""``fibernb run SCRIPT``: a Python script with a cluster at hand, which ends with it."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

import fibernb
from fibernb.errors import ConfigError

OPTION: Final = re.compile(r"(?:--workers|--backend)(?P<long>=.*)?|-[nb](?P<short>\d+|=.+)?")
ENDING: Final = "fibernb.multiprocessing.ending"
HELP: Final = (
    "Run a Python script with a cluster at hand: its tasks and cells find it without fnb.init(). "
    "Options may also follow the script: `fibernb run SCRIPT -n 8`. Its own arguments come last; "
    "put -- before them if one of them is called like an option."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_options(parser)
    parser.add_argument("command", nargs=argparse.PARSER, metavar="SCRIPT", help="the script, and its own arguments")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--workers", type=int, metavar="N", help="seats (default: one a core)")
    parser.add_argument("-b", "--backend", metavar="BACKEND", help="where the engines run (default: local)")


def run(options: argparse.Namespace) -> int:
    name, *following = options.command
    script, arguments = Path(name), _take_options(following, options)
    if not os.access(script, os.R_OK) or script.is_dir():
        raise ConfigError(f"there is no script {script} that can be read")
    given = {"workers": options.workers, "backend": options.backend}
    fibernb.init(**{name: value for name, value in given.items() if value is not None})
    sys.argv = [str(script), *arguments]
    script = script.absolute()  # as tracebacks and __file__ of a script that an interpreter runs have it
    sys.path[0] = str(script.parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except Exception as error:  # noqa: BLE001  whatever a script raises is its own affair
        traceback.print_exception(error.with_traceback(_within(script, error.__traceback__)))
        return 1
    finally:
        _end_processes()
        fibernb.shutdown()
    return 0


def _take_options(following: list[str], options: argparse.Namespace) -> list[str]:
    """Take what belongs to ``fibernb run`` from the beginning of what follows the script; returns the rest."""
    own, rest = _divided(following)
    parser = argparse.ArgumentParser(prog="fibernb run SCRIPT", add_help=False)
    _add_options(parser)
    parser.parse_args(own, options)
    return rest


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our options, and behind them the script's arguments; ``--`` may stand between."""
    taken = 0
    while taken < len(arguments) and (option := OPTION.fullmatch(arguments[taken])):
        taken += 1 if option["long"] or option["short"] else 2
    separators = 1 if arguments[taken : taken + 1] == ["--"] else 0
    return arguments[:taken], arguments[taken + separators :]


def _end_processes() -> None:
    """Of a script that has started some: they end, or are waited for, as at the end of an interpreter."""
    if ENDING in sys.modules:
        sys.modules[ENDING].end_processes()


def _within(script: Path, frames: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins in the script; all of it, if it was not even compiled."""
    inner = frames
    while inner is not None and inner.tb_frame.f_code.co_filename != str(script):
        inner = inner.tb_next
    return inner or frames
