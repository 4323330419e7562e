"""``%fiber debug``: the last error of a rank or an actor, looked at from the notebook with Python's debugger."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell

from fibernb.client.calls import PinnedCalls
from fibernb.client.cells import CellHandle
from fibernb.client.cluster import Cluster
from fibernb.client.failures import shorthand
from fibernb.client.interrupts import Deferral
from fibernb.engine import postmortem_pdb
from fibernb.engine.postmortem_pdb import Answer, Failure, told_of
from fibernb.errors import ActorDied, CellTimeout, TaskCancelled, TaskError, message_of
from fibernb.model import Rank
from fibernb.notebook import debug_places
from fibernb.notebook.clusters import Clusters
from fibernb.notebook.debug_places import Place
from fibernb.notebook.tracebacks import is_remote
from fibernb.notebook.usage import UsageError

PATIENCE_S: Final = 2.0
"""How long ranks may take to say whether they have an error,"""

PATIENCE_EACH_S: Final = 0.01
"""and how much longer for each of them."""

SLOW_S: Final = 20.0
"""How long those may take that have nothing else to do. They are not busy, but perhaps their machine is."""

TICK_S: Final = 0.1
"""The time between two looks whether they have."""

STOPPED: Final = (CellTimeout, KeyboardInterrupt, asyncio.CancelledError)
"""Errors of a notebook that interrupt engines, which then have frames to look at."""

GONE: Final = "with the old one went what there was to debug"
ENDED: Final = "with its process went what there was to debug"

MAX_OTHERS: Final = 5
"""How many errors of other kinds are told."""

_FRAME: Final = re.compile(r"^(> |  )(/\S+)(?=\(\d+\))", re.MULTILINE)

NOTHING: Final = (
    "no engine has an error to debug: they keep the last one of their cells, tasks and actors, until the next one or "
    "until they are replaced. %debug looks at errors of the notebook itself"
)

NameOf: TypeAlias = Callable[[str], str]


class Debugging:
    """The verb ``debug`` for one notebook."""

    def __init__(self, shell: InteractiveShell, clusters: Clusters) -> None:
        self._shell = shell
        self._clusters = clusters
        self.verbs: dict[str, Callable[[argparse.Namespace], Any]] = {"debug": self._debug}

    def debug(self, asked: str | None = None) -> None:
        """Look at the last error of a rank or an actor; None: at the latest one, wherever that was."""
        cluster = self._clusters.existing()
        seen = getattr(sys, "last_value", None)
        if asked is None and isinstance(seen, ActorDied):
            print(f"{message_of(seen).partition(chr(10))[0]}\n{ENDED}; %fiber debug RANK looks at another error")
            return
        calls = PinnedCalls(cluster.session)
        places = self._everywhere(cluster, calls) if asked is None else self._asked_for(cluster, calls, asked)
        one = asked is not None and len(places) == 1
        failures = _failures_of(places[0]) if one else _failures_of_all(calls, places)
        if not failures:
            print(_nothing(places, asked))
            return
        by_rank = {place.rank: place for place in places}
        chosen, others = choose(failures, seen)
        print(_headline(chosen, others, by_rank, self._name_of))
        if asked is None and seen is not None:
            print(_overtaken(failures, seen), end="")
        _Conversation(by_rank[chosen.rank], self._name_of).hold()

    def _everywhere(self, cluster: Cluster, calls: PinnedCalls) -> list[Place]:
        """All ranks, and the actors that are known to have failed."""
        rows = debug_places.actors(cluster.session)
        found = [debug_places.in_actor(cluster.session, row) for row in debug_places.with_errors(cluster.session, rows)]
        return [debug_places.on_rank(calls, rank) for rank in range(cluster.size)] + found

    def _asked_for(self, cluster: Cluster, calls: PinnedCalls, text: str) -> list[Place]:
        rows = debug_places.actors(cluster.session)
        meant = debug_places.named(rows, text, self._shell.user_ns)
        if not meant:
            return [debug_places.on_rank(calls, _rank_of(cluster, text))]
        living = [row for row in meant if row.rank is not None]
        if not living:
            raise _has_ended(meant[0].title, meant[0].ended or meant[0].state)
        return [debug_places.in_actor(cluster.session, row) for row in living]

    def _debug(self, options: argparse.Namespace) -> None:
        self.debug(" ".join(options.whose) or None)

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
    """A session of the debugger somewhere: what is typed goes there, what comes back is shown."""

    def __init__(self, place: Place, name_of: NameOf) -> None:
        self._place = place
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
            print(f"{self._place.who} has another engine since, or another debugger: {GONE}")
        except TaskError as error:
            print(f"{error}\n{GONE}")

    def _frame(self, found: re.Match[str]) -> str:
        return found[1] + self._name_of(found[2])

    def _next(self, answer: Answer) -> Answer | None:
        try:
            line = typed(f"[{self._place.short}] {answer.prompt}")
        except BaseException:
            self._place.asks.start(postmortem_pdb.end, (answer.session,))
            raise
        try:
            return self._ask(postmortem_pdb.command, answer.session, line)
        except KeyboardInterrupt:
            return Answer(session=answer.session, text="*** KeyboardInterrupt\n", prompt=postmortem_pdb.PROMPT)

    def _ask(self, operation: Callable[..., Answer | None], *args: Any) -> Answer | None:
        """The answer from there. Raises KeyboardInterrupt when that is what has stopped it."""
        place, handle = self._place, None
        try:
            with Deferral(lambda: None):  # once it is sent there is somebody to stop
                handle = place.asks.start(operation, args)
            _wait(handle, place)
        except KeyboardInterrupt:
            if handle is None:
                raise
            _stop(handle, place)
            error = handle.errors().get(place.rank)
            if isinstance(error, TaskCancelled) and not error.engine_replaced:
                raise
        (answer,) = handle.result()
        return answer  # type: ignore[no-any-return]


def choose(failures: Sequence[Failure], seen: BaseException | None) -> tuple[Failure, list[Failure]]:
    """The failure to debug, and the others of the same cell or function.

    It is one of those that came about together with the latest: rather one that the notebook has just shown, rather a
    mistake than an interrupt, then the lowest rank. Pure.
    """
    latest = max(failures, key=lambda failure: failure.at_s)
    together = [failure for failure in failures if failure.name == latest.name]
    shown = "" if seen is None else told_of(seen)
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


def _rank_of(cluster: Cluster, text: str) -> Rank:
    """The one rank of this text. Raises `ConfigError` when it is neither that nor, as it seems, an actor's name."""
    if (text.isidentifier() and text != "all") or debug_places.EXTRA.fullmatch(text):
        raise UsageError(f"%fiber debug knows no actor {text!r}: give its variable, name or class, or a rank")
    ranks = cluster.parse_ranks(text)
    if len(ranks) != 1:
        raise UsageError(f"%fiber debug looks at one rank at a time, such as %fiber debug {ranks[0] if ranks else 0}")
    return ranks[0]


def _failures_of_all(calls: PinnedCalls, places: Sequence[Place]) -> list[Failure]:
    """The last errors of these places, as far as they answer soon."""
    ranks = [place.rank for place in places if not place.is_actor]
    handles = [place.asks.start(postmortem_pdb.last_failure, ()) for place in places if place.is_actor]
    if ranks:
        handles.append(calls.start(calls.operation(postmortem_pdb.last_failure), ranks, [()]))
    late = _late(handles, PATIENCE_S + len(places) * PATIENCE_EACH_S)
    late = [handle for handle in late if handle.ranks[0] < 0 or not _is_only_slow(handle)]
    for handle in late:
        handle.cancel()
    _late(late, PATIENCE_S)
    answers = {rank: value for handle in handles for rank, value in handle.values().items()}
    silent = [place for place in places if place.rank not in answers]
    if silent:
        print(f"busy, so not asked for an error: {_together(silent)}")
    return [failure for failure in answers.values() if failure is not None]


def _late(handles: Sequence[CellHandle], patience_s: float) -> list[CellHandle]:
    """Those that have not finished within this time, all together."""
    end = time.monotonic() + patience_s
    return [handle for handle in handles if not handle.wait(max(0.0, end - time.monotonic()))]


def _is_only_slow(handle: CellHandle) -> bool:
    """Wait for ranks that do nothing else, as the hub says: whether all have finished then."""
    end = time.monotonic() + SLOW_S
    while time.monotonic() < end:
        if handle.wait(TICK_S):
            return True
        if handle.is_held_up():
            return False
    return False


def _has_ended(title: str, reason: str) -> UsageError:
    return UsageError(f"{title} has ended ({reason}): {ENDED}")


def _failures_of(place: Place) -> list[Failure]:
    """The last error of one place, if it has one, however long it takes to answer."""
    handle = place.asks.start(postmortem_pdb.last_failure, ())
    try:
        _wait(handle, place)
    except KeyboardInterrupt:
        _stop(handle, place)
        raise
    try:
        return [failure for failure in handle.result() if failure is not None]
    except ActorDied as error:  # just now: the hub does not know of it yet when it is asked for its actors
        raise _has_ended(place.short, message_of(error)) from None


def _wait(handle: CellHandle, place: Place) -> None:
    """Wait for the answer of a place, and say so if it has other things to do."""
    if handle.wait(PATIENCE_S) or (not place.is_actor and _is_only_slow(handle)):
        return
    others = ", ".join(handle.waits_for())
    if others or place.is_actor:
        print(f"{place.who} is busy{others and f' with {others}'}: waiting", flush=True)
    handle.wait()


def _stop(handle: CellHandle, place: Place) -> None:
    """Cancel a call and wait for its end; an interrupt meanwhile replaces the engine at once, if it is no actor's."""
    handle.cancel()
    try:
        handle.wait()
    except KeyboardInterrupt:
        if place.is_actor:
            raise
        handle.cancel(force=True)
        handle.wait()


def _nothing(places: Sequence[Place], asked: str | None) -> str:
    if asked is None or not places:
        return NOTHING
    return f"{' and '.join(place.who for place in places)} {'has' if len(places) == 1 else 'have'} no error to debug"


def _headline(chosen: Failure, others: Sequence[Failure], places: Mapping[Rank, Place], name_of: NameOf) -> str:
    function = f", in {chosen.function}" if chosen.function else ""
    who = places[chosen.rank].who
    lines = [f"{who}: {chosen.told} ({name_of(chosen.file)}, line {chosen.line}{function})"]
    alike = [places[failure.rank] for failure in others if _likeness(failure) == _likeness(chosen)]
    if alike:
        lines.append(f"the same on {_together(alike)}: %fiber debug {alike[0].written}")
    different = [failure for failure in others if _likeness(failure) != _likeness(chosen)]
    lines += (_line_of(failure, places[failure.rank]) for failure in different[:MAX_OTHERS])
    if len(different) > MAX_OTHERS:
        lines.append(f"… and {_together(places[failure.rank] for failure in different[MAX_OTHERS:])}")
    return "\n".join(lines)


def _overtaken(failures: Sequence[Failure], seen: BaseException) -> str:
    """A line that says that the error which the notebook has shown last is none of these; else nothing."""
    if isinstance(seen, BaseExceptionGroup) or not is_remote(seen) or any(f.told == told_of(seen) for f in failures):
        return ""
    first_line = told_of(seen).partition("\n")[0]
    return f"the error shown last ({first_line}) is not there any more: its engine has had another, or was replaced\n"


def _together(places: Iterable[Place]) -> str:
    """``rank 0-3, 7, Counter (extra 2)``."""
    found = list(places)
    ranks = [place.rank for place in found if not place.is_actor]
    return ", ".join([*([f"rank {shorthand(ranks)}"] if ranks else []), *(p.who for p in found if p.is_actor)])


def _likeness(failure: Failure) -> tuple[object, ...]:
    return failure.told, failure.file, failure.line


def _line_of(failure: Failure, place: Place) -> str:
    first_line = failure.told.partition("\n")[0]
    return f"{place.who}: {first_line}: %fiber debug {place.written}"
