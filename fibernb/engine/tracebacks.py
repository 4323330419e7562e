"""Tracebacks as text, with the user's frames only."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import IPython

import fibernb

MAX_CHARACTERS: Final = 200_000

_OURS: Final = tuple(str(Path(module).parent) for module in (fibernb.__file__, IPython.__file__))
_LOOP: Final = str(Path(asyncio.__file__).parent)


def text_of(error: BaseException) -> str:
    """What Python would print, without the frames of FiberNB, of IPython and of the event loop that runs cells."""
    report = traceback.TracebackException.from_exception(error, compact=True)
    for part in _all_parts(report):
        _fold(part)
    text = "".join(report.format())
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[: MAX_CHARACTERS // 2]}\n...\n{text[-MAX_CHARACTERS // 2 :]}"


def _all_parts(report: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    yield report
    for inner in (report.__cause__, report.__context__, *(report.exceptions or ())):
        if inner is not None:
            yield from _all_parts(inner)


def _fold(report: traceback.TracebackException) -> None:
    frames = [frame for frame in report.stack if not frame.filename.startswith(_OURS)]
    while frames and frames[0].filename.startswith(_LOOP) and any(not f.filename.startswith(_LOOP) for f in frames):
        del frames[0]
    report.stack[:] = frames
