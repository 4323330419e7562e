"""What a cluster has by name in the memory of its host, and how nothing of it stays.

Names begin with the prefix of the cluster, then tell who gave them: ``fnb-<cluster>-<owner>-<random>``. So whoever
removes the cluster's directory finds them all, and whoever learns of a process's death finds those that it gave. The
prefix is made of the identity of the cluster's directory, which is the same by whatever path somebody came there.

A named semaphore is a file as well. A process that gets to know one that somebody else has made gives it a name of its
own, a link to the same file; so each name has one owner, and the semaphore lives as long as anybody has a name for it.
"""

from __future__ import annotations

import os
from _multiprocessing import sem_unlink  # type: ignore[import-not-found]  # it has no types
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from fibernb.errors import NotConnected

SHARED_MEMORY: Final = "/dev/shm"  # only Linux shows it; elsewhere names are not linked, and not found again
SEMAPHORE: Final = "sem."  # how the C library's files of semaphores begin


def prefix_of(directory: str | Path) -> str:
    """How all names of a cluster begin. Raises `NotConnected` when its directory is gone."""
    try:
        found = os.stat(directory)
    except OSError as error:
        raise NotConnected(f"the cluster at {directory} has ended: start a new one") from error
    return f"fnb-{found.st_dev:x}.{found.st_ino:x}-"


def semaphore_file(name: str) -> str:
    """The file behind a semaphore, where the system shows it."""
    return f"{SHARED_MEMORY}/{SEMAPHORE}{name[1:]}"


def are_shown() -> bool:
    """Whether the system shows the files of semaphores."""
    return os.path.isdir(SHARED_MEMORY)


def link_semaphore(name: str, other: str) -> bool:
    """Give a semaphore another name. False when the system does not show its file, or when it has gone."""
    try:
        os.link(semaphore_file(name), semaphore_file(other))
    except (FileNotFoundError, PermissionError):
        return False
    return True


def unlink_semaphore(name: str) -> None:
    """Take a name away, if it is still there. Those who have the semaphore open keep it."""
    with suppress(FileNotFoundError):
        sem_unlink(name)


def semaphore_files(prefix: str) -> Iterator[os.DirEntry[str]]:
    """The files of the semaphores whose names begin so."""
    return _files(lambda name: name.startswith(SEMAPHORE + prefix))


def unlink_all(*prefixes: str) -> None:
    """Remove everything whose name begins so: semaphores, and other shared memory."""
    for entry in _files(lambda name: name.removeprefix(SEMAPHORE).startswith(prefixes)):
        with suppress(OSError):
            os.unlink(entry.path)


def unlink_all_of(directory: str | Path) -> None:
    """Remove everything that a cluster has by name; harmless when its directory is gone."""
    with suppress(NotConnected):
        unlink_all(prefix_of(directory))


def _files(belongs: Callable[[str], bool]) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(SHARED_MEMORY) as entries:
            yield from [entry for entry in entries if belongs(entry.name)]
    except FileNotFoundError:
        return
