"""``fibernb uninstall``: remove the kernel that ``fibernb install`` made."""

from __future__ import annotations

import argparse
import shutil
from typing import Final

from fibernb.cli.install import add_place, is_ours, kernel_directory
from fibernb.cli.output import show
from fibernb.errors import ConfigError

HELP: Final = "Remove the kernel that `fibernb install` made, with the same options."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    directory = kernel_directory(options)
    if not is_ours(directory):
        raise ConfigError(f"there is no kernel of FiberNB in {directory}: give the options that it was installed with")
    try:
        shutil.rmtree(directory)
    except OSError as error:
        raise ConfigError(f"cannot remove {error.filename or directory}: {error.strerror or error}") from error
    show({"removed": str(directory)}, f"removed {directory}", options.json)
    return 0
