"""``fibernb doctor``: what can go wrong on this host, and how to mend it."""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from fibernb import config
from fibernb.cli.output import show, table
from fibernb.config import Config
from fibernb.errors import FibernbError
from fibernb.hub import limits, place
from fibernb.version import VERSION

HELP: Final = "Check what can go wrong on this host, and say how to mend it."

OK: Final = "ok"
WARNING: Final = "warning"
PROBLEM: Final = "problem"

SHARED_MEMORY: Final = Path("/dev/shm")
ENOUGH_SHARED_BYTES: Final = 1_000_000_000
ENOUGH_DISK_BYTES: Final = 100_000_000
MANY_SEATS: Final = 256
NEEDED: Final = {"ipykernel": 7, "ipywidgets": 8, "pyzmq": 26, "msgspec": 0, "cloudpickle": 3, "psutil": 6}
HELPFUL: Final = ("numpy", "tqdm", "jupyterlab")


class Finding(NamedTuple):
    subject: str
    state: str
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(options: argparse.Namespace) -> int:
    findings = list(_examine())
    text = table(("", "WHAT", "FOUND"), [(finding.state, finding.subject, finding.text) for finding in findings])
    show([finding._asdict() for finding in findings], text, options.json)
    return 1 if any(finding.state == PROBLEM for finding in findings) else 0


def _examine() -> Iterator[Finding]:
    yield from _versions()
    try:
        configuration = config.load()
    except FibernbError as error:
        yield Finding("configuration", PROBLEM, str(error))
        configuration = config.DEFAULTS
    else:
        sources = sorted({setting.source for setting in config.describe(configuration)} - {"default"})
        yield Finding("configuration", OK, ", ".join(sources) or "defaults")
    for check in (_seats, _runtime_directory, _sockets, _shared_memory):
        yield from check(configuration)


def _versions() -> Iterator[Finding]:
    state = OK if sys.platform in ("linux", "darwin") else PROBLEM
    yield Finding("system", state, f"FiberNB {VERSION}, Python {sys.version.split()[0]}, {sys.platform}")
    for package, major in NEEDED.items():
        yield _needed(package, major)
    found = [f"{package} {_installed(package)}" for package in HELPFUL if _installed(package)]
    missing = [package for package in HELPFUL if not _installed(package)]
    yield Finding("helpful", OK, ", ".join(found + [f"{package} is not installed" for package in missing]))


def _needed(package: str, major: int) -> Finding:
    version = _installed(package)
    if version is None:
        return Finding(package, PROBLEM, f"is not installed: pip install {package}")
    if int(version.split(".")[0]) < major:
        return Finding(package, PROBLEM, f"{version} is too old: pip install '{package}>={major}'")
    return Finding(package, OK, version)


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _seats(configuration: Config) -> Iterator[Finding]:
    limits.raise_file_limit()
    limit = limits.seat_limit(configuration)
    state = OK if limit.seats >= MANY_SEATS else WARNING
    yield Finding("seats", state, f"at most {limit.seats}, because {limit.reason}")


def _runtime_directory(configuration: Config) -> Iterator[Finding]:
    directory = place.runtime_dir(configuration)
    try:
        place.make_private(directory)
    except FibernbError as error:
        yield Finding("runtime directory", PROBLEM, str(error))
        return
    free = shutil.disk_usage(directory).free
    advice = "" if free >= ENOUGH_DISK_BYTES else "; make room there, logs and sockets live in it"
    yield Finding(
        "runtime directory", PROBLEM if advice else OK, f"{directory}, {free // 1_000_000} MB are free{advice}"
    )


def _sockets(configuration: Config) -> Iterator[Finding]:
    """Some file systems hold no sockets, and their paths must be short."""
    base = place.runtime_dir(configuration)
    name = configuration.name or f"{configuration.backend}-0000"
    if not base.is_dir():
        return
    with tempfile.TemporaryDirectory(dir=base) as trial, socket.socket(socket.AF_UNIX) as trial_socket:
        try:
            trial_socket.bind(str(Path(trial, "s")))
            place.check_socket_path(base / name)
        except (OSError, FibernbError) as error:
            yield Finding("sockets", PROBLEM, f"{error}; set runtime_dir (FIBERNB_RUNTIME_DIR) to a local directory")
        else:
            yield Finding("sockets", OK, "can be made there")


def _shared_memory(_configuration: Config) -> Iterator[Finding]:
    if not SHARED_MEMORY.is_dir():
        return
    size = shutil.disk_usage(SHARED_MEMORY).total
    text = f"{size // 1_000_000} MB in {SHARED_MEMORY}"
    if not os.access(SHARED_MEMORY, os.W_OK):
        yield Finding("shared memory", PROBLEM, f"{SHARED_MEMORY} cannot be written to: have it mounted with mode 1777")
    elif size < ENOUGH_SHARED_BYTES:
        yield Finding("shared memory", WARNING, f"{text}; large data wants more (docker run --shm-size=2g)")
    else:
        yield Finding("shared memory", OK, text)
