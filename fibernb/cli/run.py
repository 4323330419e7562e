"""``fibernb run SCRIPT``: a Python script with a cluster at hand, which ends with it."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

import fibernb
from fibernb.errors import ConfigError

ENDING: Final = "fibernb.multiprocessing.ending"
HELP: Final = "Run a Python script with a cluster at hand: its tasks and cells find it without fnb.init()."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--workers", type=int, metavar="N", help="seats (default: one a core)")
    parser.add_argument("-b", "--backend", metavar="BACKEND", help="where the engines run (default: local)")
    parser.add_argument("script", metavar="SCRIPT", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its own arguments")


def run(options: argparse.Namespace) -> int:
    script = Path(options.script)
    if not os.access(script, os.R_OK) or script.is_dir():
        raise ConfigError(f"there is no script {script} that can be read")
    given = {"workers": options.workers, "backend": options.backend}
    fibernb.init(**{name: value for name, value in given.items() if value is not None})
    sys.argv = [str(script), *options.arguments]
    sys.path[0] = str(script.parent.absolute())
    try:
        runpy.run_path(str(script), run_name="__main__")
    except Exception as error:  # noqa: BLE001  whatever a script raises is its own affair
        traceback.print_exception(error.with_traceback(_within(script, error.__traceback__)))
        return 1
    finally:
        _end_processes()
        fibernb.shutdown()
    return 0


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
