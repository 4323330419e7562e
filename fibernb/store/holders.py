"""Which processes of a cluster give names and take locks: a file for each, with what people call the process.

The file of an engine goes when the engine does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from fibernb.model import EngineId

DIRECTORY_NAME: Final = "holders"  # in the directory of the cluster

NOT_AN_ENGINE: Final = 1 << 62


def owner_of_engine(engine: EngineId) -> str:
    """How an engine is called in names."""
    return f"e{engine}"


def owner_of_process(pid: int) -> str:
    """How any other process is called in names."""
    return f"p{pid}"


def is_process(owner: str) -> bool:
    """Whether it is a process that is no engine, such as a client."""
    return owner.startswith("p")


def token_of(owner: str) -> int:
    """How an owner is written into memory."""
    number = int(owner[1:])
    return number | NOT_AN_ENGINE if is_process(owner) else number


def lives(directory: str | Path, token: int) -> bool:
    """Whether that owner, which has introduced itself, has not ended yet."""
    if not token & NOT_AN_ENGINE:
        return (Path(directory) / DIRECTORY_NAME / owner_of_engine(token)).exists()
    try:
        os.kill(token & ~NOT_AN_ENGINE, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the number is somebody else's now
        return False
    return True


def introduce(directory: str, owner: str, text: str) -> None:
    """Say that there is this process, and what it is called; "" as long as it has not taken a lock."""
    holders = Path(directory) / DIRECTORY_NAME
    holders.mkdir(mode=0o700, exist_ok=True)
    (holders / owner).write_text(text)


def owners(directory: Path) -> Iterator[str]:
    """The processes that have said so."""
    with suppress(FileNotFoundError):
        yield from [path.name for path in (directory / DIRECTORY_NAME).iterdir()]


def take_introduction(directory: Path, owner: str) -> str | None:
    """What a process that has ended was called, "" if it has never taken a lock; None if it had not said anything."""
    path = directory / DIRECTORY_NAME / owner
    try:
        text = path.read_text()
        path.unlink()
    except FileNotFoundError:
        return None
    return text
