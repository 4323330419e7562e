"""Packages for runtime environments: installed once on a host, by content, whatever number of engines asks for them.

pip first tells what has to be installed beside that which this Python has already; that, and no more, goes into a
directory of its own. So an environment sees the engines' own packages, in the versions that they have loaded, unless it
asks for others.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from fibernb.errors import EnvironmentFailed

LAST_LINES: Final = 12  # of what pip says, in the error
PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")


def install(requirements: Sequence[str]) -> Path:
    """The directory that has these packages; it is made if it is not there, by one process while the others wait.

    Raises `EnvironmentFailed` with the last lines of pip.
    """
    target = cache_directory() / key_of(requirements)
    if not target.is_dir():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(target.with_suffix(".lock")):
            if not target.is_dir():
                _make(target, requirements)
    _refuse_loaded(target)
    return target


def cache_directory() -> Path:
    """Where installed packages are kept for later clusters; it may be removed at any time that none uses it."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "fibernb", "pip")


def key_of(requirements: Sequence[str]) -> str:
    """Equal for what gives equal directories: the packages, and the Python that they are added to."""
    python = [sys.prefix, *map(str, sys.version_info[:3])]
    return hashlib.blake2b(json.dumps([sorted(requirements), python]).encode(), digest_size=12).hexdigest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process of this host at a time; the lock of one that has died is free."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(target: Path, requirements: Sequence[str]) -> None:
    unfinished = target.with_suffix(".unfinished")  # of an installer that was killed, if it is there
    shutil.rmtree(unfinished, ignore_errors=True)
    wanted = _missing(requirements)
    unfinished.mkdir(mode=0o700)
    if wanted:
        _pip(requirements, "install", "--quiet", "--no-deps", "--target", str(unfinished), *wanted)
    os.replace(unfinished, target)


def _missing(requirements: Sequence[str]) -> list[str]:
    """What has to be installed, exactly, so that the requirements and all that they require are there."""
    told = _pip(requirements, "install", "--quiet", "--dry-run", "--report", "-", *requirements)
    report = json.loads(told[told.index("{") :])
    return [_exact(item) for item in report["install"]]


def _exact(item: dict[str, Any]) -> str:
    metadata, source = item["metadata"], item["download_info"]
    if item.get("is_direct"):
        return f"{metadata['name']} @ {source['url']}"
    return f"{metadata['name']}=={metadata['version']}"


def _pip(requirements: Sequence[str], *arguments: str) -> str:
    try:
        done = subprocess.run([*PIP, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise EnvironmentFailed(f"pip could not be started for {', '.join(requirements)}: {error}") from error
    if done.returncode:
        raise EnvironmentFailed(_what_went_wrong(requirements, done))
    return done.stdout


def _what_went_wrong(requirements: Sequence[str], done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stdout + done.stderr).strip().splitlines()[-LAST_LINES:]
    if any("No module named pip" in line for line in lines):
        return f"the cluster's Python has no pip, which installs {', '.join(requirements)}: python -m ensurepip"
    return "\n".join([f"pip could not install {', '.join(requirements)} (exit code {done.returncode}):", *lines])


def _refuse_loaded(target: Path) -> None:
    """What this process has loaded in another version cannot be replaced any more."""
    for found in importlib.metadata.distributions(path=[str(target)]):
        for name in (found.read_text("top_level.txt") or found.metadata["Name"].replace("-", "_")).split():
            loaded = getattr(sys.modules.get(name), "__version__", None)
            if isinstance(loaded, str) and loaded != found.version:
                raise EnvironmentFailed(
                    f"the environment asks for {name} {found.version}, but engines have loaded {loaded} already: "
                    f"ask for that version, or leave {name} out of the setting 'preload' when the cluster is started"
                )
