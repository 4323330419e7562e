"""Showing errors: the user's frames, the engines' frames, and nothing of what lies between."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import linecache
import multiprocessing.pool
import sys
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.pool import RemoteTraceback as PoolTraceback  # type: ignore[attr-defined]
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import IPython
from IPython.core.interactiveshell import InteractiveShell

from fibernb.client.cells import loaded_value
from fibernb.errors import FibernbError, RemoteTraceback, message_of
from fibernb.notebook.awaiting import AWAITED
from fibernb.notebook.each import items_of
from fibernb.notebook.sendable import sendable
from fibernb.notebook.snapshot import without_escapes
from fibernb.notebook.traceback_text import NameOfFile, shown
from fibernb.notebook.usage import UsageError
from fibernb.serialize.failures import fields_of, set_fields

_RED: Final = "\x1b[0;31m"
_PLAIN: Final = "\x1b[0m"
MAX_KINDS: Final = 8
"""How many errors of one group are shown in full."""

_MAGIC_LINES: Final = ("get_ipython().run_", AWAITED)


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
        folds = self._shell.InteractiveTB.mode.lower() != "verbose"
        lines = None if error is None else render(error, trace, self._name_of_file, folds=folds)
        if error is None or lines is None:
            if error is not None and any(entry.tb_frame.f_code in _RUNS_USERS_CODE for entry in _entries(trace)):
                exc_tuple = kind, error, _users_part(error, trace)
            self._original(exc_tuple, *args, **options)
            return
        _let_tell(error)
        part = _users_part(error, trace)
        error.__traceback__ = part  # IPython formats it again: 0.3 s with our frames
        sys.last_traceback = self._shell.InteractiveTB.tb = part  # for %debug, which knows both
        if isinstance(error, asyncio.CancelledError):  # this is how an interrupt ends an `await`
            kind, error = KeyboardInterrupt, KeyboardInterrupt()
        if self._shell.colors.lower() == "nocolor":
            lines = [without_escapes(line) for line in lines]
        self._shell._showtraceback(kind, error, list(map(sendable, lines)))
        if self._shell.call_pdb:
            self._shell.debugger(force=True)

    def _name_of_file(self, filename: str) -> str:
        known = self._shell.compile.format_code_name(filename)
        return " ".join(known) if known else f'File "{filename}"'


def render(
    error: BaseException, trace: TracebackType | None, name_of_file: NameOfFile, *, folds: bool = True
) -> list[str] | None:
    """The lines to show for an error; None for one that is none of our business. ``folds``: see `shown`."""
    name = functools.partial(shown, name_of_file=name_of_file, folds=folds)
    if isinstance(error, UsageError):
        return [f"{_RED}UsageError{_PLAIN}: {error}"]
    if isinstance(error, SyntaxError) and _passed_through_us(error, trace) and not is_remote(error):
        return [name("".join(traceback.format_exception_only(error)).rstrip())]
    ours = (
        isinstance(error, FibernbError) or is_remote(error) or _is_of_our_pool(error, trace) or _is_raised_by_us(trace)
    )
    if not ours and not _passed_through_us(error, trace):
        return None
    frames = traceback.extract_tb(_users_part(error, trace))
    local = "".join(map(_frame_text, frames))
    lines = [name(f"Traceback (most recent call last):\n{local}".rstrip())] if local else []
    return [*lines, *_account(error, name)]


def is_remote(error: BaseException) -> bool:
    """Whether an error came from engines."""
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return isinstance(error.__cause__, RemoteTraceback) or any(map(is_remote, members))


def _account(error: BaseException, name: Callable[[str], str]) -> Iterator[str]:
    text = _remote_text(error.__cause__)
    kind = "KeyboardInterrupt" if isinstance(error, asyncio.CancelledError) else type(error).__name__
    notes = [sendable(note) for note in getattr(error, "__notes__", ()) if isinstance(note, str) and note not in text]
    headline = f"{_RED}{kind}{_PLAIN}" + "".join(f" ({note})" for note in notes)
    if "\n" in text:
        yield f"{headline}\n{name(text)}"
        return
    message = sendable(message_of(error))
    yield f"{headline}: {message}" if message else headline
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions[:MAX_KINDS]:
            yield ""
            yield from _account(member, name)
        left = len(error.exceptions) - MAX_KINDS
        if left > 0:
            yield f"\n… {left:,} errors more: sys.last_value.exceptions has all"


def _remote_text(cause: BaseException | None) -> str:
    if isinstance(cause, PoolTraceback):
        return str(cause).strip().strip('"').strip()
    return cause.text.rstrip() if isinstance(cause, RemoteTraceback) else ""


def _is_of_our_pool(error: BaseException, trace: TracebackType | None) -> bool:
    """Whether a pool's worker has raised it: that pool's, whose errors have causes of the library's class."""
    return isinstance(error.__cause__, PoolTraceback) and any(
        _file_of(entry).startswith(_OURS) for entry in _entries(trace)
    )


def _let_tell(error: BaseException) -> None:
    """The kernel's answer holds the message of the error: if its class fails to tell it, or nothing can carry it, the
    cell would never end. Give it one that can be told.
    """
    message = sendable(message_of(error))
    if _tells(error, message):
        return
    kind = type(error)
    with contextlib.suppress(TypeError):  # a class that is built in, or built in a way that it can have no other
        own = {"__str__": lambda _: message, "__module__": kind.__module__}
        error.__class__ = type(kind.__name__, (kind,), own)
    if not _tells(error, message):
        texts = {name: sendable(value) for name, value in fields_of(error).items() if isinstance(value, str)}
        set_fields(error, texts)  # of which a class that is built in may make its message
        error.args = (message,) if len(error.args) < 2 else error.args


def _tells(error: BaseException, message: str) -> bool:
    try:
        return str(error) == message
    except Exception:  # noqa: BLE001  a user's class may raise anything
        return False


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


def _frame_text(frame: traceback.FrameSummary) -> str:
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    head = f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n'
    return head + (f"    {line}\n" if line else "")


_RUNS_USERS_CODE: Final = (items_of.__code__, loaded_value.__code__)
"""What is raised below these is the user's own."""

_OURS: Final = f"{Path(__file__).parent.parent}/"
_BETWEEN: Final = (f"{Path(IPython.__file__).parent}/", contextlib.__file__, multiprocessing.pool.__file__)
