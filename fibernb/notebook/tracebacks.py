"""Showing errors: the user's frames, the engines' frames, and nothing of what lies between."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import IPython
from IPython.core.interactiveshell import InteractiveShell

from fibernb.errors import FibernbError, RemoteTraceback
from fibernb.notebook.usage import UsageError

_RED: Final = "\x1b[0;31m"
_PLAIN: Final = "\x1b[0m"
_MAGIC_LINE: Final = "get_ipython().run_"
_CELL_FILE: Final = re.compile(r'File "(In\[\d*\])"')


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
        if lines is None:
            self._original(exc_tuple, *args, **options)
        else:
            self._shell._showtraceback(kind, error, lines)

    def _name_of_file(self, filename: str) -> str:
        known = self._shell.compile.format_code_name(filename)
        return " ".join(known) if known else f'File "{filename}"'


def render(error: BaseException, trace: TracebackType | None, name_of_file: Callable[[str], str]) -> list[str] | None:
    """The lines to show for an error; None for one that is none of our business."""
    if isinstance(error, UsageError):
        return [f"{_RED}UsageError{_PLAIN}: {error}"]
    if isinstance(error, SyntaxError) and _passed_through_us(error, trace) and not _is_remote(error):
        return ["".join(traceback.format_exception_only(error)).rstrip()]
    if not (isinstance(error, FibernbError) or _is_remote(error) or _passed_through_us(error, trace)):
        return None
    frames = list(_user_frames(trace))
    local = "".join(_frame_text(frame, name_of_file) for frame in frames)
    lines = [f"Traceback (most recent call last):\n{local}".rstrip()] if local else []
    return [*lines, *_account(error)]


def _account(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        yield f"{_RED}{type(error).__name__}{_PLAIN}: {error}"
        for member in error.exceptions:
            yield from _account(member)
        return
    remote = error.__cause__
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    headline = f"{_RED}{type(error).__name__}{_PLAIN}" + "".join(f" ({note})" for note in notes)
    if isinstance(remote, RemoteTraceback):
        text = _CELL_FILE.sub(r"Cell \1", remote.text)
        yield f"{headline}\n{text.rstrip()}"
    else:
        yield f"{headline}: {error}" if str(error) else headline


def _is_remote(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_remote(member) for member in error.exceptions)
    return isinstance(error.__cause__, RemoteTraceback)


def _passed_through_us(error: BaseException, trace: TracebackType | None) -> bool:
    """Whether it is an interrupt that ended one of our waits, or a body that is not Python."""
    return isinstance(error, KeyboardInterrupt | SyntaxError) and any(
        frame.filename.startswith(_OURS) for frame in traceback.extract_tb(trace)
    )


def _user_frames(trace: TracebackType | None) -> Iterator[traceback.FrameSummary]:
    for frame in traceback.extract_tb(trace):
        internal = frame.filename.startswith((_OURS, _IPYTHON))
        if not internal and not (frame.line or "").startswith(_MAGIC_LINE):
            yield frame


def _frame_text(frame: traceback.FrameSummary, name_of_file: Callable[[str], str]) -> str:
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    where = "" if frame.name == "<module>" else f", in {frame.name}"
    return f"  {name_of_file(frame.filename)}, line {frame.lineno}{where}\n" + (f"    {line}\n" if line else "")


_OURS: Final = f"{Path(__file__).parent.parent}/"
_IPYTHON: Final = f"{Path(IPython.__file__).parent}/"
