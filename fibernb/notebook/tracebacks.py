"""Showing errors: the user's frames, the engines' frames, and nothing of what lies between."""

from __future__ import annotations

import asyncio
import contextlib
import linecache
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias

import IPython
from IPython.core.interactiveshell import InteractiveShell

from fibernb.errors import FibernbError, RemoteTraceback
from fibernb.notebook.awaiting import AWAITED
from fibernb.notebook.each import items_of
from fibernb.notebook.snapshot import without_escapes
from fibernb.notebook.usage import UsageError

_RED: Final = "\x1b[0;31m"
_PLAIN: Final = "\x1b[0m"
_MAGIC_LINES: Final = ("get_ipython().run_", AWAITED)
_FILE: Final = re.compile(r'^(\s*)File "([^"\n]+)"', re.MULTILINE)
_REMOTE_CELL: Final = re.compile(r"In\[\d*\]")

NameOfFile: TypeAlias = Callable[[str], str]
"""``File "x.py"``, or ``Cell In[3]`` for the file that IPython makes of a cell."""


class TracebackHook:
    """Takes over the showing of those errors that FiberNB raised or brought from engines."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._original: Callable[..., Any] = shell.showtraceback

    def install(self) -> None:
        """From now on the shell shows errors through this hook."""
        self._shell.showtraceback = self.show  # type: ignore[method-assign]

    def remove(self) -> None:
        """The shell shows errors as it did before, unless somebody else has taken over since."""
        if vars(self._shell).get("showtraceback") == self.show:
            del self._shell.showtraceback

    def show(self, exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        """What `InteractiveShell.showtraceback` does."""
        try:
            kind, error, trace = self._shell._get_exc_info(exc_tuple)
        except ValueError:  # there is no exception; the shell says so
            kind, error, trace = None, None, None
        lines = None if error is None else render(error, trace, self._name_of_file)
        if error is None or lines is None:
            if error is not None and any(entry.tb_frame.f_code is items_of.__code__ for entry in _entries(trace)):
                exc_tuple = kind, error, _users_part(error, trace)
            self._original(exc_tuple, *args, **options)
            return
        error.__traceback__ = _users_part(error, trace)  # IPython formats it again: 0.3 s with our frames
        if isinstance(error, asyncio.CancelledError):  # this is how an interrupt ends an `await`
            kind, error = KeyboardInterrupt, KeyboardInterrupt()
        if self._shell.colors.lower() == "nocolor":
            lines = [without_escapes(line) for line in lines]
        self._shell._showtraceback(kind, error, lines)

    def _name_of_file(self, filename: str) -> str:
        known = self._shell.compile.format_code_name(filename)
        return " ".join(known) if known else f'File "{filename}"'


def render(error: BaseException, trace: TracebackType | None, name_of_file: NameOfFile) -> list[str] | None:
    """The lines to show for an error; None for one that is none of our business."""
    if isinstance(error, UsageError):
        return [f"{_RED}UsageError{_PLAIN}: {error}"]
    if isinstance(error, SyntaxError) and _passed_through_us(error, trace) and not _is_remote(error):
        return [_with_cells("".join(traceback.format_exception_only(error)).rstrip(), name_of_file)]
    ours = isinstance(error, FibernbError) or _is_remote(error) or _is_raised_by_us(trace)
    if not ours and not _passed_through_us(error, trace):
        return None
    frames = traceback.extract_tb(_users_part(error, trace))
    local = "".join(_frame_text(frame, name_of_file) for frame in frames)
    lines = [f"Traceback (most recent call last):\n{local}".rstrip()] if local else []
    return [*lines, *_account(error, name_of_file)]


def _account(error: BaseException, name_of_file: NameOfFile) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        yield f"{_RED}{type(error).__name__}{_PLAIN}: {error}"
        for member in error.exceptions:
            yield ""
            yield from _account(member, name_of_file)
        return
    remote = error.__cause__
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    name = "KeyboardInterrupt" if isinstance(error, asyncio.CancelledError) else type(error).__name__
    headline = f"{_RED}{name}{_PLAIN}" + "".join(f" ({note})" for note in notes)
    if isinstance(remote, RemoteTraceback) and "\n" in remote.text.rstrip():
        yield f"{headline}\n{_with_cells(remote.text.rstrip(), name_of_file)}"
    else:
        yield f"{headline}: {error}" if str(error) else headline


def _with_cells(text: str, name_of_file: NameOfFile) -> str:
    """A traceback in which functions and lines of cells are said to be of cells, as IPython does."""

    def name(found: re.Match[str]) -> str:
        indent, filename = found.groups()
        return f"{indent}Cell {filename}" if _REMOTE_CELL.fullmatch(filename) else indent + name_of_file(filename)

    return _FILE.sub(name, text)


def _is_remote(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_remote(member) for member in error.exceptions)
    return isinstance(error.__cause__, RemoteTraceback)


def _passed_through_us(error: BaseException, trace: TracebackType | None) -> bool:
    """Whether it is an interrupt that ended one of our waits, or a body that is not Python."""
    return isinstance(error, KeyboardInterrupt | asyncio.CancelledError | SyntaxError) and any(
        _file_of(entry).startswith(_OURS) for entry in _entries(trace)
    )


def _is_raised_by_us(trace: TracebackType | None) -> bool:
    """Whether a line of ours says ``raise``, and no mistake of ours does: what we refuse needs none of our frames."""
    last = list(_entries(trace))[-1:]
    return any(
        _file_of(entry).startswith(_OURS)
        and linecache.getline(_file_of(entry), entry.tb_lineno).lstrip().startswith("raise ")
        for entry in last
    )


def _users_part(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """The trace without frames of ours and of IPython; an interrupt hits what we call, which is left out as well."""
    kept = []
    for entry in _entries(trace):
        ours = _file_of(entry).startswith(_OURS)
        if ours and isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
            break
        if not ours and not _file_of(entry).startswith(_BETWEEN) and not _is_magic_line(entry):
            kept.append(entry)
    part: TracebackType | None = None
    for entry in reversed(kept):
        part = TracebackType(part, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return part


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _file_of(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename


def _is_magic_line(entry: TracebackType) -> bool:
    return linecache.getline(_file_of(entry), entry.tb_lineno).strip().startswith(_MAGIC_LINES)


def _frame_text(frame: traceback.FrameSummary, name_of_file: NameOfFile) -> str:
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    where = "" if frame.name == "<module>" else f", in {frame.name}"
    return f"  {name_of_file(frame.filename)}, line {frame.lineno}{where}\n" + (f"    {line}\n" if line else "")


_OURS: Final = f"{Path(__file__).parent.parent}/"
_BETWEEN: Final = (f"{Path(IPython.__file__).parent}/", contextlib.__file__)
