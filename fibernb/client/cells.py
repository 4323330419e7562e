"""Cells that run on ranks: the handle of one that is under way, and what it comes to."""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from fibernb.client import failures
from fibernb.client.refs import ObjectRef, error_of
from fibernb.client.session import Session
from fibernb.client.watching import Watch
from fibernb.core.messages import Said, SeatStatus, Status
from fibernb.errors import GetTimeout, TaskCancelled, WorkerDied, annotate
from fibernb.model import Outcome, Rank


class CellResult(list[Any]):
    """The values of a cell or call, in the order of its ranks."""

    def __init__(self, values: Iterable[Any], ranks: Sequence[Rank]) -> None:
        super().__init__(values)
        self.ranks = tuple(ranks)

    def __reduce__(self) -> tuple[Any, ...]:
        return CellResult, (list(self), self.ranks)


@runtime_checkable
class Handle(Protocol):
    """What a cell that is under way can be stopped by."""

    refs: tuple[ObjectRef, ...]

    def cancel(self, force: bool = False, recursive: bool = True) -> None:
        """Stop it wherever it has not finished."""


class CellHandle:
    """A cell, or any call, that is under way on some ranks.

    Parameters
    ----------
    session : where it runs.
    ranks : the seats, in the order of results.
    refs : one for each rank.
    """

    def __init__(self, session: Session, ranks: Sequence[Rank], refs: Sequence[ObjectRef]) -> None:
        self.ranks = tuple(ranks)
        self.refs = tuple(refs)
        self.timed_out = ""  # what to say when it was cancelled since its time was over
        self._session = session
        self._spoke: set[int] = set()  # tasks that have said something
        self._watch = Watch(session)
        self._status_at_death: dict[int, Status | None] = {}  # by task, when its death was first seen here

    def done(self) -> bool:
        """Whether every rank has finished, one way or the other."""
        return all(ref.answer is not None for ref in self.refs)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for every rank; False when some have not finished after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for ref in self.refs:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if ref.answer is None and not self._session.wait(ref.done, left):
                return False
        return True

    def result(self, timeout: float | None = None) -> CellResult:
        """The values in rank order; waits for them.

        Parameters
        ----------
        timeout : seconds; None waits for ever.

        Raises what the ranks raised (see `failures.combined`), `CellTimeout` when the cell was cancelled since its own
        time was over, and `GetTimeout` when some had not finished in the time of this call, which go on.
        """
        if not self.wait(timeout):
            raise GetTimeout(
                f"the cell had not finished after {timeout:g} s on ranks {self.unfinished()}; it goes on there"
            )
        errors = self.errors()
        if errors:
            raise failures.in_time(self.timed_out, failures.combined(errors, len(self.ranks)), "rank", errors)
        return CellResult(self.values().values(), self.ranks)

    def values(self) -> dict[Rank, Any]:
        """The values of the ranks that have finished well, whatever became of the others."""
        return {
            rank: loaded_value(rank, ref)
            for rank, ref in zip(self.ranks, self.refs, strict=True)
            if ref.answer is not None and ref.answer.outcome is Outcome.OK
        }

    def errors(self) -> dict[Rank, BaseException]:
        """The exceptions of the ranks that have failed."""
        return {
            rank: error_of(ref.answer)
            for rank, ref in zip(self.ranks, self.refs, strict=True)
            if ref.answer is not None and ref.answer.outcome is not Outcome.OK
        }

    def cancel(self, force: bool = False, recursive: bool = True) -> None:
        """Stop the cell on every rank that has not finished, and unless ``recursive`` is false the tasks that it has
        submitted. A second time, or with ``force``, engines are replaced.
        """
        self._session.cancel(self.refs, force, recursive)

    def states(self) -> list[str]:
        """What each rank does. Never waits.

        ``waiting``, ``running``, ``done``, ``failed``, ``cancelled``, ``lost`` or ``replaced``. Replaced is one whose
        engine died when the hub has told since that a new one has its seat, and one that did not stop when cancelled.
        """
        running = self._running()
        return [self._state(rank, ref, running) for rank, ref in zip(self.ranks, self.refs, strict=True)]

    def unfinished(self) -> str:
        """The ranks that have not finished, in short."""
        return failures.shorthand(rank for rank, ref in zip(self.ranks, self.refs, strict=True) if not ref.done())

    def waits_for(self) -> list[str]:
        """What runs on the ranks where this waits, as far as the hub has told. Never asks."""
        return list(dict.fromkeys(seat.function for seat in self._in_the_way(self._watch.told()) if seat.function))

    def is_held_up(self) -> bool:
        """Whether every rank that has not finished does something else, as far as the hub has told. Never waits."""
        busy = {seat.rank for seat in self._in_the_way(self._watch.ask()) if seat.task is not None}
        return all(ref.done() or rank in busy for rank, ref in zip(self.ranks, self.refs, strict=True))

    def cluster_status(self) -> Status | None:
        """What the hub has told last of the cluster, while this ran. Never asks."""
        return self._watch.told()

    def add_done_callback(self, callback: Callable[[CellHandle], object]) -> None:
        """Call ``callback(handle)`` once every rank has finished."""
        left = set(self.refs)

        def finished(ref: ObjectRef) -> None:
            left.discard(ref)
            if not left:
                callback(self)

        for ref in self.refs:
            ref.add_done_callback(finished)
        if not self.refs:
            callback(self)

    def note(self, said: Said) -> None:
        """A rank has said something, so it runs."""
        self._spoke.add(said.task)

    def __await__(self) -> Generator[Any, None, CellResult]:
        yield from self._arrival().__await__()
        return self.result()

    async def _arrival(self) -> None:
        await asyncio.gather(*(ref._arrival() for ref in self.refs if not ref.done()))

    def _in_the_way(self, status: Status | None) -> list[SeatStatus]:
        """Seats where this waits, and which do something else."""
        if status is None or self.done():
            return []
        own = {ref.id for ref in self.refs}
        waiting = {rank for rank, ref in zip(self.ranks, self.refs, strict=True) if not ref.done()}
        return [seat for seat in status.engines if seat.rank in waiting and seat.task not in own]

    def _running(self) -> set[int]:
        status = self._watch.told() if self.done() else self._watch.ask()
        return self._spoke | _tasks_of(status)

    def _state(self, rank: Rank, ref: ObjectRef, running: set[int]) -> str:
        if ref.answer is None:
            return "running" if ref.id in running else "waiting"
        if ref.answer.outcome is Outcome.OK:
            return "done"
        error = error_of(ref.answer)
        if isinstance(error, TaskCancelled):
            return "replaced" if error.engine_replaced else "cancelled"
        if not isinstance(error, WorkerDied):
            return "failed"
        return "replaced" if self._is_replaced(rank, ref) else "lost"

    def _is_replaced(self, rank: Rank, ref: ObjectRef) -> bool:
        status = self._watch.told()
        if status is None or status is self._status_at_death.setdefault(ref.id, status):
            return False
        return any(seat.rank == rank and seat.state in ("idle", "busy") for seat in status.engines)

    def __repr__(self) -> str:
        states = self.states()
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        return f"<cell on ranks {failures.shorthand(self.ranks)}: {counts or 'no ranks'}>"


def loaded_value(rank: Rank, ref: ObjectRef) -> Any:
    """The value of a rank that has finished well. Raises what loading it raises: the user's classes may do anything."""
    try:
        return ref.result()
    except Exception as error:
        annotate(error, f"while loading the value of rank {rank} where the cell was started; the cell itself has run")
        raise


def _tasks_of(status: Status | None) -> set[int]:
    return set() if status is None else {seat.task for seat in status.engines if seat.task is not None}


def imports_of(source: str) -> list[str]:
    """The import statements at the top level of a cell, each as source; lines of IPython's own syntax do not count.

    None are found where the rest is no Python.
    """
    lines = ["" if line.startswith(("%", "!")) else line for line in source.splitlines()]
    try:
        body = ast.parse("\n".join(lines)).body
    except SyntaxError:
        return []
    return [ast.unparse(statement) for statement in body if isinstance(statement, ast.Import | ast.ImportFrom)]
