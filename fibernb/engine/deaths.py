"""What the node can tell of an engine's end."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Final, NamedTuple

from fibernb.engine import system
from fibernb.engine.streams import log_path, native_log_path
from fibernb.model import Rank

LAST_LINES: Final = 20
LAST_BYTES: Final = 4096
CRASH: Final = "Fatal Python error:"
MEGABYTE: Final = 1_000_000


class Logs(NamedTuple):
    """The logs of a rank, of Python code and of native code, and where they ended when its present engine began."""

    paths: tuple[str, str]
    offsets: tuple[int, int]


def open_logs(directory: Path, rank: Rank) -> Logs:
    """Note where the logs of an engine begin that is about to be forked."""
    paths = (str(log_path(directory, rank)), str(native_log_path(directory, rank)))
    return Logs(paths, (_size(paths[0]), _size(paths[1])))


def last_output(logs: Logs) -> str:
    """The last lines that the engine wrote, those of native code last."""
    texts = [_tail(path, offset) for path, offset in zip(*logs, strict=True)]
    return "".join(text if text.endswith("\n") else text + "\n" for text in texts if text)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _tail(path: str, offset: int) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(offset, _size(path) - LAST_BYTES))
            text = file.read(LAST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    return "".join(_last_lines(text.splitlines(keepends=True)))


def _last_lines(lines: list[str]) -> list[str]:
    """The last ones; of a crash that Python has reported, the report up to where the user's code was called."""
    for at, line in enumerate(lines):
        if line.startswith(CRASH):
            report = [line for line in lines[at:] if not line.startswith(_OUR_FRAMES)]
            return report[:LAST_LINES]
    return lines[-LAST_LINES:]


def evidence(exit_code: int, usage: resource.struct_rusage, we_killed_it: bool, oom_kills: int) -> str:
    """What else is known: peak memory and, if it was killed by somebody else, by whom perhaps.

    Parameters
    ----------
    oom_kills : how many processes the kernel has killed for want of memory since the last time.
    """
    peak = f"peak memory {usage.ru_maxrss * _RSS_UNIT_BYTES / MEGABYTE:,.0f} MB"
    if exit_code != -signal.SIGKILL or we_killed_it:
        return peak
    if oom_kills > 0:
        limit = system.memory_limit_bytes()
        of = f" (its limit here is {limit / MEGABYTE:,.0f} MB)" if limit is not None else ""
        return f"{peak}; the kernel ran out of memory{of}"
    return f"{peak}; killed from outside"


_OUR_FRAMES: Final = f'  File "{Path(__file__).parent}'
_RSS_UNIT_BYTES: Final = 1024 if os.uname().sysname == "Linux" else 1
