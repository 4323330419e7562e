"""Looking at the last error of an engine with Python's own debugger, one command at a time.

A session lasts over many calls, pinned to the rank like any other operation: each brings one line that was typed and
takes back what the debugger answers. Between them the engine is free; if it dies, its place is taken by one that has no
session.
"""

from __future__ import annotations

import codeop
import contextlib
import io
import itertools
import linecache
import pdb  # noqa: T100  the debugger that all this is about
import sys
import traceback
from collections.abc import Iterator
from typing import Any, Final, Literal

from fibernb.engine import context
from fibernb.engine.postmortem import Kept
from fibernb.errors import ClusterError, message_of
from fibernb.model import Rank, Struct, TaskId

MAX_CHARACTERS: Final = 50_000  # of one answer
PROMPT: Final = "(Pdb) "
MORE: Final = "...   "  # what is asked for the further lines of a statement


class Failure(Struct, frozen=True, kw_only=True):
    """The last error of one engine.

    ``told``: its class and message. ``file``, ``line`` and ``function``: where it was raised.
    """

    rank: Rank
    task: TaskId
    name: str
    told: str
    file: str
    line: int
    function: str  # empty outside of any
    at_s: float
    is_interrupt: bool


class Answer(Struct, frozen=True, kw_only=True):
    """What the debugger says to a line. ``prompt`` is what to ask next; empty when the session has ended."""

    session: int
    text: str
    prompt: str = ""


class PostMortem(pdb.Pdb):
    """A debugger of frames that have ended. ``lines`` are those of a statement that is not complete yet."""

    def __init__(self, kept: Kept, number: int) -> None:
        self.written = io.StringIO()
        super().__init__(stdin=io.StringIO(), stdout=self.written, nosigint=True, readrc=False)
        self.number = number
        self.lines: list[str] = []
        self.reset()
        self.setup(None, kept.trace)

    def canonic(self, filename: str) -> str:
        """Cells are no files: their name is not to be completed to a path."""
        return filename if filename in linecache.cache else super().canonic(filename)

    def show_place(self) -> None:
        """Write where the debugger is."""
        self.print_stack_entry(self.stack[self.curindex])

    def feed(self, line: str) -> bool:
        """Carry out one line; whether that ends the session."""
        if self.lines:
            self._continue(line)
            return False
        self.cmdqueue = [line]
        stop = False
        while self.cmdqueue and not stop:  # there may be several in a line
            command = self.precmd(self.cmdqueue.pop(0))
            stop = bool(self.postcmd(self.onecmd(command), command))
        return stop

    def default(self, line: str) -> None:
        if _is_incomplete(line.removeprefix("!")):
            self.lines = [line]
        else:
            super().default(line)

    def _continue(self, line: str) -> None:
        self.lines.append(line)
        if not line.strip() or not _is_incomplete("\n".join(self.lines).removeprefix("!")):
            lines, self.lines = self.lines, []
            super().default("\n".join(lines) + "\n")

    def _refuse(self, arg: str, temporary: bool | Literal[0, 1] = 0) -> None:  # noqa: ARG002
        """It needs a program that runs, or a terminal; this one has ended."""
        self.error("not after the end of a program: type an expression or a statement to run it in this frame")

    do_run = do_restart = do_debug = do_interact = do_commands = _refuse
    do_break = do_b = do_tbreak = _refuse


class _Sessions:
    """The session of this engine: there is one at most."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.current: PostMortem | None = None


_sessions: Final = _Sessions()


def last_failure() -> Failure | None:
    """The error that this engine could debug."""
    engine = _engine()
    kept = engine.errors.last
    return None if kept is None else _described(engine.rank, kept)


def begin() -> Answer | None:
    """Begin to debug the last error of this engine; None when there is none."""
    kept = _engine().errors.last
    if kept is None:
        return None
    _sessions.current = debugger = PostMortem(kept, next(_sessions.numbers))
    debugger.show_place()
    return _answer(debugger, ended=False)


def command(session: int, line: str) -> Answer | None:
    """Give one line to the debugger; None when this engine has no such session (any more)."""
    debugger = _sessions.current
    if debugger is None or debugger.number != session:
        return None
    with _told(debugger):
        ended = debugger.feed(line)
    if ended:
        end(session)
    return _answer(debugger, ended=ended)


def end(session: int) -> None:
    """Let go of a session, if it lasts still."""
    debugger = _sessions.current
    if debugger is not None and debugger.number == session:
        debugger.forget()
        _sessions.current = None
        sys.settrace(None)


@contextlib.contextmanager
def _told(debugger: PostMortem) -> Iterator[None]:
    """What code of the user prints meanwhile, and how an interrupt ends it, belongs to the answer."""
    with contextlib.redirect_stdout(debugger.written):
        try:
            yield
        except KeyboardInterrupt:
            debugger.lines = []
            raise


def _answer(debugger: PostMortem, *, ended: bool) -> Answer:
    text = debugger.written.getvalue()
    debugger.written.seek(0)
    debugger.written.truncate()
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}\n… {len(text) - MAX_CHARACTERS:,} characters more\n"
    prompt = "" if ended else MORE if debugger.lines else PROMPT
    return Answer(session=debugger.number, text=text, prompt=prompt)


def _described(rank: Rank, kept: Kept) -> Failure:
    last = traceback.extract_tb(kept.trace)[-1]
    return Failure(
        rank=rank,
        task=kept.task,
        name=kept.name,
        told=told_of(kept.error),
        file=last.filename,
        line=last.lineno or 0,
        function="" if last.name == "<module>" else last.name,
        at_s=kept.at_s,
        is_interrupt=isinstance(kept.error, KeyboardInterrupt),
    )


def told_of(error: BaseException) -> str:
    """Its class and message."""
    message = message_of(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _is_incomplete(source: str) -> bool:
    try:
        return codeop.compile_command(source, "<stdin>", "single") is None
    except (SyntaxError, ValueError, OverflowError):
        return False


def _engine() -> Any:
    engine = context.current()
    if engine is None:
        raise ClusterError("this is a function of engines: it cannot be called in another process")
    return engine
