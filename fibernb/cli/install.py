"""``fibernb install``: a kernel for Jupyter that has the magics loaded."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from ipykernel.kernelspec import write_kernel_spec
from jupyter_core.paths import jupyter_data_dir

from fibernb.cli.output import show
from fibernb.errors import ConfigError

HELP: Final = "Make a kernel 'Python (FiberNB)' for Jupyter that loads the magics by itself."
DEFAULT_NAME: Final = "fibernb"
DISPLAY_NAME: Final = "Python (FiberNB)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("--display-name", default=DISPLAY_NAME, metavar="TEXT", help=f"default: {DISPLAY_NAME}")


def add_place(parser: argparse.ArgumentParser) -> None:
    """Which kernel it is, and where: shared with ``uninstall``."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user (default outside of an environment)")
    where.add_argument("--sys-prefix", action="store_true", help="into this environment (default inside of one)")
    where.add_argument("--prefix", metavar="DIRECTORY", help="below another prefix, as for an image")
    parser.add_argument("--name", default=DEFAULT_NAME, help=f"of the kernel's directory (default {DEFAULT_NAME})")


def kernel_directory(options: argparse.Namespace) -> Path:
    """Where the kernel's files belong."""
    name = options.name.lower()  # as Jupyter itself does
    if not re.fullmatch(r"[a-z0-9_][a-z0-9._-]*", name):
        raise ConfigError(
            f"a kernel cannot be called {options.name!r}: use a-z, 0-9 and '_', and '.' and '-' inside of it"
        )
    in_environment = sys.prefix != sys.base_prefix
    if options.prefix or options.sys_prefix or (in_environment and not options.user):
        return Path(options.prefix or sys.prefix, "share", "jupyter", "kernels", name)
    return Path(jupyter_data_dir(), "kernels", name)


def is_ours(directory: Path) -> bool:
    """Whether this is a kernel that ``fibernb install`` has made."""
    try:
        return "fibernb" in json.loads((directory / "kernel.json").read_text())["argv"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def run(options: argparse.Namespace) -> int:
    target = kernel_directory(options)
    if os.path.lexists(target) and not is_ours(target):
        raise ConfigError(f"{target} is a kernel of somebody else's: give another --name, or remove it first")
    try:
        _write(target, options.display_name)
    except OSError as error:
        raise ConfigError(
            f"cannot write {error.filename or target}: {error.strerror or error}. Elsewhere: --user, --prefix"
        ) from error
    text = f"installed the kernel {options.display_name!r} in {target}\nchoose it in Jupyter: `%fiber` is there at once"
    show({"directory": str(target), "name": target.name}, text, options.json)
    return 0


def _write(target: Path, display_name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        draft = write_kernel_spec(
            Path(place, "kernel"), {"display_name": display_name}, extra_arguments=["--ext", "fibernb"]
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(draft, target, dirs_exist_ok=True)
