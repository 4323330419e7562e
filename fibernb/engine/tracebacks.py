"""Tracebacks as text, with the user's frames only."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import IPython

from fibernb.errors import RemoteTraceback

MAX_CHARACTERS: Final = 200_000

_OURS: Final = (str(Path(__file__).parents[1]), str(Path(IPython.__file__).parent))
_LOOP: Final = str(Path(asyncio.__file__).parent)
_REMOTE: Final = f"{RemoteTraceback.__module__}.{RemoteTraceback.__qualname__}: \n"


def text_of(error: BaseException) -> str:
    """What Python would print, without the frames of FiberNB, of IPython and of the event loop that runs cells.

    A traceback that came from another engine stands there as if it had been raised here.
    """
    report = traceback.TracebackException.from_exception(error, compact=True)
    for part in _all_parts(report):
        _fold(part)
    text = "".join(report.format()).replace(_REMOTE, "")
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[: MAX_CHARACTERS // 2]}\n...\n{text[-MAX_CHARACTERS // 2 :]}"


def users_part(trace: TracebackType | None) -> TracebackType | None:
    """The same frames as in `text_of`; None when there are none."""
    kept: list[TracebackType] = []
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if not filename.startswith(_OURS) and (kept or not filename.startswith(_LOOP)):
            kept.append(trace)
        trace = trace.tb_next
    part: TracebackType | None = None
    for entry in reversed(kept):
        part = TracebackType(part, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return part


def _all_parts(report: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    left = [report]  # a chain may be longer than Python lets functions call each other
    while left:
        part = left.pop()
        yield part
        inner = (part.__cause__, part.__context__, *(part.exceptions or ()))
        left += [found for found in inner if found is not None]


def _fold(report: traceback.TracebackException) -> None:
    frames = [frame for frame in report.stack if not frame.filename.startswith(_OURS)]
    while frames and frames[0].filename.startswith(_LOOP) and any(not f.filename.startswith(_LOOP) for f in frames):
        del frames[0]
    report.stack[:] = frames
