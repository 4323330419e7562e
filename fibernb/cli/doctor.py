"""``fibernb doctor``: what can go wrong on this host, and how to mend it."""

from __future__ import annotations

import argparse
import os
import resource
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
from fibernb.hub import capacity, limits, place
from fibernb.store import memory, sizes
from fibernb.store.room import Limits
from fibernb.version import VERSION

HELP: Final = "Check what can go wrong on this host, and say how to mend it."

OK: Final = "ok"
WARNING: Final = "warning"
PROBLEM: Final = "problem"

SHARED_MEMORY: Final = Path("/dev/shm")
ENOUGH_SHARED_BYTES: Final = 1_000_000_000
ENOUGH_DISK_BYTES: Final = 100_000_000
ENOUGH_FILES: Final = 4096
ENOUGH_STORE_BYTES: Final = 500_000_000
MEGABYTE: Final = 1_000_000
MANY_SEATS: Final = 256
NEEDED: Final = {"ipykernel": 6, "ipywidgets": 8, "pyzmq": 26, "msgspec": 0, "cloudpickle": 3, "psutil": 6}
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
    for check in (_seats, _open_files, _runtime_directory, _sockets, _memory, _gpus, _shared_memory, _object_store):
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


def _open_files(_configuration: Config) -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < ENOUGH_FILES:
        text = f"{hard} are allowed, which limits the number of engines; raise it (ulimit -Hn, or LimitNOFILE)"
        yield Finding("open files", WARNING, text)
    else:
        allowed = "any number" if soft == resource.RLIM_INFINITY else f"{soft}"
        yield Finding("open files", OK, f"{allowed} allowed")


def _memory(configuration: Config) -> Iterator[Finding]:
    tight = memory.tightest(memory.accounts())
    if tight is None:
        yield Finding("memory", WARNING, "this system does not tell how much there is: set resources (memory=8e9)")
        return
    text = f"{tight.used_bytes // MEGABYTE:,} of {tight.limit_bytes // MEGABYTE:,} MB of {tight.what} are in use"
    if tight.fraction >= configuration.memory_fraction:
        text += f", and over {configuration.memory_fraction:.0%} tasks are stopped (memory_fraction): end something"
        yield Finding("memory", WARNING, text)
    else:
        yield Finding("memory", OK, text)


def _gpus(configuration: Config) -> Iterator[Finding]:
    count = capacity.of_host(configuration).milli_gpus / 1000
    yield Finding("gpus", OK, f"{count:g}" if count else "none")


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
    """The object store does not need it, but libraries do, such as torch's data loaders."""
    if not SHARED_MEMORY.is_dir():
        return
    size = shutil.disk_usage(SHARED_MEMORY).total
    text = f"{size // MEGABYTE} MB in {SHARED_MEMORY}"
    if not os.access(SHARED_MEMORY, os.W_OK):
        yield Finding("shared memory", WARNING, f"{SHARED_MEMORY} cannot be written to: have it mounted with mode 1777")
    elif size < ENOUGH_SHARED_BYTES:
        more = "FiberNB does without; other libraries may want more (docker run --shm-size=2g)"
        yield Finding("shared memory", WARNING, f"{text}; {more}")
    else:
        yield Finding("shared memory", OK, text)


def _object_store(configuration: Config) -> Iterator[Finding]:
    """How large it may become, and where it spills to."""
    try:
        arena, spill = (
            sizes.arena_place(configuration),
            sizes.spill_place(configuration, place.runtime_dir(configuration)),
        )
        limit = sizes.limits(configuration, memory.accounts(), arena, spill)
    except FibernbError as error:
        yield Finding("object store", PROBLEM, str(error))
        return
    small = limit.arena_bytes < ENOUGH_STORE_BYTES
    advice = "; large values soon go to disk: set store_bytes, or give it more memory" if small else ""
    where = "" if arena is None else f" in {arena.directory}"
    text = f"at most {limit.arena_bytes // MEGABYTE:,} MB{where}, {limit.arena_reason}{advice}"
    yield Finding("object store", WARNING if small else OK, text)
    yield _spilling(limit, spill)


def _spilling(limit: Limits, spill: sizes.Place | None) -> Finding:
    if spill is None:
        return Finding("spilling", WARNING, f"values that do not fit are refused: {limit.spill_reason}")
    free = f"{spill.free_bytes // MEGABYTE:,} MB are free"
    text = f"at most {limit.spill_bytes // MEGABYTE:,} MB in {spill.directory}, where {free}"
    if limit.spill_bytes > spill.free_bytes:
        return Finding("spilling", WARNING, f"{text}: fewer than spill_bytes allows")
    return Finding("spilling", OK, text)
