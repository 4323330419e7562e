"""``%fiber debug``: the last error of a rank, looked at from the notebook with Python's debugger."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell

from fibernb.client.calls import PinnedCalls
from fibernb.client.cells import CellHandle
from fibernb.client.cluster import Cluster
from fibernb.client.failures import shorthand
from fibernb.engine import postmortem_pdb
from fibernb.engine.postmortem_pdb import Answer, Failure
from fibernb.errors import CellTimeout, TaskCancelled, TaskError, message_of
from fibernb.model import Rank
from fibernb.notebook.clusters import Clusters
from fibernb.notebook.tracebacks import is_remote
from fibernb.notebook.usage import UsageError

PATIENCE_S: Final = 2.0
"""How long ranks may take to say whether they have an error,"""

PATIENCE_EACH_S: Final = 0.01
"""and how much longer for each of them."""

STOPPED: Final = (CellTimeout, KeyboardInterrupt, asyncio.CancelledError)
"""Errors of a notebook that interrupt engines, which then have frames to look at."""

GONE: Final = "with the old one went what there was to debug"

MAX_OTHERS: Final = 5
"""How many errors of other kinds are told."""

_FRAME: Final = re.compile(r"^(> |  )(/\S+)(?=\(\d+\))", re.MULTILINE)

NOTHING: Final = (
    "no engine has an error to debug: they keep the last one of their cells and tasks, until the next one or until "
    "they are replaced. %debug looks at errors of the notebook itself"
)

NameOf: TypeAlias = Callable[[str], str]


class Debugging:
    """The verb ``debug`` for one notebook."""

    def __init__(self, shell: InteractiveShell, clusters: Clusters) -> None:
        self._shell = shell
        self._clusters = clusters
        self.verbs: dict[str, Callable[[argparse.Namespace], Any]] = {"debug": self._debug}

    def debug(self, rank: str | None = None) -> None:
        """Look at the last error of a rank; None: at the latest one, wherever that was."""
        cluster = self._clusters.existing()
        ranks = _asked_for(cluster, rank)
        calls = PinnedCalls(cluster.session)
        failures = _failures_of_all(calls, ranks) if rank is None else _failures_of(calls, ranks[0])
        if not failures:
            print(NOTHING if rank is None else f"rank {ranks[0]} has no error to debug")
            return
        chosen, others = choose(failures, getattr(sys, "last_value", None))
        print(_headline(chosen, others, self._name_of))
        _Conversation(calls, chosen.rank, self._name_of).hold()

    def _debug(self, options: argparse.Namespace) -> None:
        self.debug(options.rank)

    def _name_of(self, filename: str) -> str:
        """``In[3]`` for the file that IPython makes of a cell; of other files their path."""
        known = self._shell.compile.format_code_name(filename)
        return known[1] if known else filename


class DebuggerHook:
    """Lets ``%debug`` look at errors of engines where they were raised."""

    def __init__(self, shell: InteractiveShell, debugging: Debugging) -> None:
        self._shell = shell
        self._debugging = debugging
        self._original: Callable[..., Any] = shell.debugger

    def install(self) -> None:
        """From now on the shell debugs through this hook."""
        self._shell.debugger = self.debug  # type: ignore[method-assign]

    def remove(self) -> None:
        """The shell debugs as it did before, unless somebody else has taken over since."""
        if vars(self._shell).get("debugger") == self.debug:
            del self._shell.debugger

    def debug(self, force: bool = False) -> None:
        """What `InteractiveShell.debugger` does."""
        error = getattr(sys, "last_value", None)
        if not force or error is None or not (is_remote(error) or error.__traceback__ is None):
            self._original(force=force)
        elif error.__traceback__ is not None:
            print("these are the notebook's frames; %fiber debug shows those of the engine that raised the error")
            self._original(force=force)
        elif is_remote(error) or isinstance(error, STOPPED):
            self._debugging.debug()
        else:
            print(f"{type(error).__name__} has no frames to look at: no code of yours has raised it")


class _Conversation:
    """A session of the debugger of one rank: what is typed goes there, what comes back is shown."""

    def __init__(self, calls: PinnedCalls, rank: Rank, name_of: NameOf) -> None:
        self._calls = calls
        self._rank = rank
        self._name_of = name_of

    def hold(self) -> None:
        """Talk until one side ends it. An interrupt of a command stops that; one at the prompt ends the session."""
        try:
            answer = self._ask(postmortem_pdb.begin)
            while answer is not None:
                print(_FRAME.sub(self._frame, answer.text), end="", flush=True)
                if not answer.prompt:
                    return
                answer = self._next(answer)
            print(f"rank {self._rank} has another engine since, or another debugger: {GONE}")
        except TaskError as error:
            print(f"{error}\n{GONE}")

    def _frame(self, found: re.Match[str]) -> str:
        return found[1] + self._name_of(found[2])

    def _next(self, answer: Answer) -> Answer | None:
        try:
            line = typed(f"[{self._rank}] {answer.prompt}")
        except BaseException:
            self._begin(postmortem_pdb.end, answer.session)
            raise
        try:
            return self._ask(postmortem_pdb.command, answer.session, line)
        except KeyboardInterrupt:
            return Answer(session=answer.session, text="*** KeyboardInterrupt\n", prompt=postmortem_pdb.PROMPT)

    def _ask(self, operation: Callable[..., Answer | None], *args: Any) -> Answer | None:
        """The answer of the rank. Raises KeyboardInterrupt when that is what has stopped it there."""
        handle = self._begin(operation, *args)
        try:
            _wait(handle, self._rank)
        except KeyboardInterrupt:
            _stop(handle)
            error = handle.errors().get(self._rank)
            if isinstance(error, TaskCancelled) and not error.engine_replaced:
                raise
        (answer,) = handle.result()
        return answer  # type: ignore[no-any-return]

    def _begin(self, operation: Callable[..., Answer | None], *args: Any) -> CellHandle:
        return self._calls.start(self._calls.operation(operation), [self._rank], [args])


def choose(failures: Sequence[Failure], seen: BaseException | None) -> tuple[Failure, list[Failure]]:
    """The failure to debug, and the others of the same cell or function.

    It is one of those that came about together with the latest: rather one that the notebook has just shown, rather a
    mistake than an interrupt, then the lowest rank. Pure.
    """
    latest = max(failures, key=lambda failure: failure.at_s)
    together = [failure for failure in failures if failure.name == latest.name]
    shown = "" if seen is None else f"{type(seen).__name__}: {message_of(seen)}"
    together.sort(key=lambda failure: (failure.told != shown, failure.is_interrupt, failure.rank))
    return together[0], sorted(together[1:], key=lambda failure: failure.rank)


def typed(prompt: str) -> str:
    """A line that the user types; where there is nothing more to come, the word that ends a session."""
    try:
        return input(prompt)
    except EOFError:
        return "quit"
    except StdinNotImplementedError:
        raise UsageError("%fiber debug asks for commands, and this front end has no way to type them") from None


def _asked_for(cluster: Cluster, text: str | None) -> list[Rank]:
    ranks = list(range(cluster.size)) if text is None else cluster.parse_ranks(text)
    if text is not None and len(ranks) != 1:
        raise UsageError(f"%fiber debug looks at one rank at a time, such as %fiber debug {ranks[0] if ranks else 0}")
    return ranks


def _failures_of_all(calls: PinnedCalls, ranks: Sequence[Rank]) -> list[Failure]:
    """The last errors of these ranks, as far as they answer soon."""
    if not ranks:
        return []
    handle = calls.start(calls.operation(postmortem_pdb.last_failure), ranks, [()])
    if not handle.wait(PATIENCE_S + len(ranks) * PATIENCE_EACH_S):
        handle.cancel()
        handle.wait(PATIENCE_S)
    answers = handle.values()
    silent = [rank for rank in ranks if rank not in answers]
    if silent:
        print(f"busy, so not asked for an error: rank {shorthand(silent)}")
    return [failure for failure in answers.values() if failure is not None]


def _failures_of(calls: PinnedCalls, rank: Rank) -> list[Failure]:
    """The last error of one rank, if it has one, however long it takes to answer."""
    handle = calls.start(calls.operation(postmortem_pdb.last_failure), [rank], [()])
    try:
        _wait(handle, rank)
    except KeyboardInterrupt:
        _stop(handle)
        raise
    return [failure for failure in handle.result() if failure is not None]


def _wait(handle: CellHandle, rank: Rank) -> None:
    """Wait for the answer of a rank, and say so if it has other things to do."""
    if handle.wait(PATIENCE_S):
        return
    others = ", ".join(handle.waits_for())
    if others:
        print(f"rank {rank} is busy with {others}: waiting", flush=True)
    handle.wait()


def _stop(handle: CellHandle) -> None:
    """Cancel a call and wait for its end; an interrupt meanwhile replaces the engine at once."""
    handle.cancel()
    try:
        handle.wait()
    except KeyboardInterrupt:
        handle.cancel(force=True)
        handle.wait()


def _headline(chosen: Failure, others: Sequence[Failure], name_of: NameOf) -> str:
    function = f", in {chosen.function}" if chosen.function else ""
    lines = [f"rank {chosen.rank}: {chosen.told} ({name_of(chosen.file)}, line {chosen.line}{function})"]
    alike = [failure.rank for failure in others if _likeness(failure) == _likeness(chosen)]
    if alike:
        lines.append(f"the same on rank {shorthand(alike)}: %fiber debug {alike[0]}")
    different = [failure for failure in others if failure.rank not in alike]
    lines += map(_line_of, different[:MAX_OTHERS])
    if len(different) > MAX_OTHERS:
        lines.append(f"… and rank {shorthand(failure.rank for failure in different[MAX_OTHERS:])}")
    return "\n".join(lines)


def _likeness(failure: Failure) -> tuple[object, ...]:
    return failure.told, failure.file, failure.line


def _line_of(failure: Failure) -> str:
    first_line = failure.told.partition("\n")[0]
    return f"rank {failure.rank}: {first_line}: %fiber debug {failure.rank}"
