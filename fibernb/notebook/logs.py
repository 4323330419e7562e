"""``%fiber log``: the last lines that engines wrote, and what they write from now on."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from IPython.core.getipython import get_ipython
from IPython.display import clear_output

from fibernb import config as configuration
from fibernb.client.cluster import Cluster
from fibernb.config import Config
from fibernb.engine.streams import rotated
from fibernb.hub import place
from fibernb.model import Rank
from fibernb.notebook.clusters import Clusters
from fibernb.notebook.excerpt import shorten
from fibernb.notebook.grouping import format_ranks
from fibernb.notebook.printing import Text, write

DEFAULT_LINES: Final = 50
"""Of each engine, unless all of them together would be more than a cell may show."""

PERIOD_S: Final = 0.25
"""The time between two looks at the logs."""

CHUNK_BYTES: Final = 65_536
MAX_NEW_BYTES: Final = 2**20
"""Of what a log has got between two looks, how much is read."""

KEPT: Final = 10
"""When more is shown than a cell may show, this part of it stays: one tenth."""

LEAST_LINE_BYTES: Final = 200
"""How much of a line is shown, however many there are."""

_EXTRA: Final = re.compile(r"extra[- ]?(\d+)")


class LogVerb:
    """Shows logs. ``sleep`` waits for some seconds."""

    def __init__(self, clusters: Clusters, sleep: Callable[[float], None] = time.sleep) -> None:
        self._clusters = clusters
        self._sleep = sleep

    def run(self, options: argparse.Namespace) -> None:
        """Show the end of each log and, if asked, what is added to it until the user interrupts or the cluster ends."""
        cluster = self._clusters.existing()
        logs = _logs_of(cluster, _logged(cluster, " ".join(options.ranks) or None))
        tails = [Tail(log.path) for log in logs] if options.follow else []
        config = configuration.load()
        shown = _last_of(logs, options.lines, config, {tail.path: tail.offset for tail in tails})
        if shown:
            write(Text("stdout", "".join(f"{line}\n" for line in shown)))
        elif not options.follow and options.lines != 0:
            print("these engines have written nothing yet")
        if options.follow:
            self._follow(cluster.directory, list(zip(logs, tails, strict=True)), Window(shown, config))

    def _follow(self, directory: Path, tails: Sequence[tuple[Log, Tail]], window: Window) -> None:
        try:
            while directory.exists():
                window.show([f"{log.label} {line}" for log, tail in tails for line in tail.new_lines()])
                self._sleep(PERIOD_S)
        except KeyboardInterrupt:
            return  # that is how it is ended
        print("the cluster has ended")


class Log(NamedTuple):
    """A file that an engine writes, and what stands before its lines."""

    label: str
    path: Path


class Window:
    """The lines that are shown: the latest, never more than a cell may show."""

    def __init__(self, shown: Iterable[str], config: Config) -> None:
        self._max_lines = max(2, config.output_limit_lines)
        self._line_bytes = max(LEAST_LINE_BYTES, config.output_limit_bytes // self._max_lines)
        self._shown = deque(shown, maxlen=self._max_lines)
        self._count = len(self._shown)

    def show(self, lines: Sequence[str]) -> None:
        """Show these as well; when there are too many, the older ones go."""
        if not lines:
            return
        self._shown.extend(shorten(line, self._line_bytes) for line in lines)
        self._count += len(lines)
        new = len(lines)
        if self._count > self._max_lines and _can_clear():
            new = max(1, self._max_lines // KEPT)
            self._count = new + 1
            clear_output(wait=True)
            write(Text("stdout", "… older lines: %fiber log -n N …\n"))
        kept = islice(self._shown, max(0, len(self._shown) - new), None)
        write(Text("stdout", "".join(f"{line}\n" for line in kept)))


class Tail:
    """What is added to a log from now on, also when it is rotated meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode, size_bytes = _standing(path)
        self.offset = size_bytes - len(_unfinished(path, size_bytes))  # up to here all lines are finished and known

    def new_lines(self) -> list[str]:
        """Lines that have been finished since the last look; of very many the last ones."""
        inode, size_bytes = _standing(self.path)
        lines: list[str] = []
        if inode != self._inode or size_bytes < self.offset:
            lines, _ = _read_lines(Path(rotated(str(self.path))), self.offset)
            self._inode, self.offset = inode, 0
        skipped_bytes = size_bytes - self.offset - MAX_NEW_BYTES
        if skipped_bytes > 0:
            self.offset += skipped_bytes
            lines.append(f"… {skipped_bytes:,} bytes skipped: %fiber log -n N …")
        if size_bytes > self.offset:
            more, taken = _read_lines(self.path, self.offset)
            self.offset += taken
            lines += more
        return lines


def last_lines(path: Path, count: int, end: int | None = None) -> list[str]:
    """The last lines of a log, and of what it was before it was rotated; ``end``: only up to there."""
    lines = _end_of(path, count, end)
    if len(lines) < count:
        lines = _end_of(Path(rotated(str(path))), count - len(lines), None) + lines
    return lines


def _logged(cluster: Cluster, text: str | None) -> list[Rank]:
    """The ranks that are asked for; ``extra 2`` is an engine beside the seats."""
    found = _EXTRA.fullmatch(text or "")
    if found is not None:
        return [-int(found[1])]
    return list(range(cluster.size)) if text is None else sorted(cluster.parse_ranks(text))


def _logs_of(cluster: Cluster, ranks: Sequence[Rank]) -> list[Log]:
    """Of each rank what Python code printed, and what libraries and commands wrote past Python."""
    return [
        Log(f"[{format_ranks([rank])}{kind and ' native'}]", place.engine_log(cluster.directory, rank, kind))
        for rank in ranks
        for kind in ("", "native")
    ]


def _last_of(logs: Sequence[Log], count: int | None, config: Config, ends: Mapping[Path, int]) -> list[str]:
    """The end of each log, with labels."""
    count = max(1, min(DEFAULT_LINES, 2 * config.output_limit_lines // max(1, len(logs)))) if count is None else count
    lines = [f"{log.label} {line}" for log in logs for line in last_lines(log.path, count, ends.get(log.path))]
    line_bytes = max(LEAST_LINE_BYTES, config.output_limit_bytes // max(1, len(lines)))
    return [shorten(line, line_bytes) for line in lines]


def _can_clear() -> bool:
    """In a terminal what has been shown stays."""
    return hasattr(get_ipython(), "kernel")


def _standing(path: Path) -> tuple[int, int]:
    """Which file that is, and its size."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_ino, found.st_size


def _read_lines(path: Path, offset: int) -> tuple[list[str], int]:
    """The finished lines behind a place, and their size in bytes."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], 0
    data = data[: data.rfind(b"\n") + 1]
    return data.decode(errors="replace").split("\n")[:-1], len(data)


def _unfinished(path: Path, size_bytes: int) -> bytes:
    """The last line of a file, if it has no end yet."""
    try:
        with path.open("rb") as file:
            return _from_the_end(size_bytes, file.fileno(), 0).rpartition(b"\n")[2]
    except FileNotFoundError:
        return b""


def _end_of(path: Path, count: int, end: int | None) -> list[str]:
    if count <= 0:
        return []
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END) if end is None else end
            return _last_lines_of(_from_the_end(end, file.fileno(), count), count)
    except FileNotFoundError:
        return []


def _from_the_end(size_bytes: int, fd: int, count: int) -> bytes:
    """At least the last so many lines, if there are as many."""
    parts: deque[bytes] = deque()
    lines = 0
    while size_bytes and lines <= count:
        taken = min(CHUNK_BYTES, size_bytes)
        size_bytes -= taken
        parts.appendleft(os.pread(fd, taken, size_bytes))
        lines += parts[0].count(b"\n")
    return b"".join(parts)


def _last_lines_of(data: bytes, count: int) -> list[str]:
    lines = data.decode(errors="replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines[-count:]
