"""``fibernb uninstall``: remove the kernel that ``fibernb install`` made."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Final

from fibernb.cli.install import add_place, kernel_directory
from fibernb.cli.output import show
from fibernb.errors import ConfigError

HELP: Final = "Remove the kernel that `fibernb install` made, with the same options."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    directory = kernel_directory(options)
    if not _is_ours(directory):
        raise ConfigError(f"there is no kernel of FiberNB in {directory}: give the options that it was installed with")
    shutil.rmtree(directory)
    show({"removed": str(directory)}, f"removed {directory}", options.json)
    return 0


def _is_ours(directory: Path) -> bool:
    try:
        return "fibernb" in json.loads((directory / "kernel.json").read_text())["argv"]
    except (OSError, ValueError, KeyError):
        return False
