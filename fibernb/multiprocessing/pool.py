"""Pools: the library's, whose workers are engines of the cluster.

Beyond the library's: what a worker held that died runs again elsewhere; how many items travel together follows their
measured run time; the number of workers may change while the pool works.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing.pool as library
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing import TimeoutError, util  # noqa: A004  the library's name, which its module of pools has as well
from multiprocessing.pool import (  # type: ignore[attr-defined]
    CLOSE,
    INIT,
    RUN,
    TERMINATE,
    ApplyResult,
    AsyncResult,
    IMapIterator,
    IMapUnorderedIterator,
    MapResult,
    MaybeEncodingError,
    RemoteTraceback,
    ThreadPool,
)
from typing import Any, Final, TypeAlias

from fibernb.errors import ConfigError, TaskCancelled
from fibernb.meta import needs_of
from fibernb.multiprocessing.context import default
from fibernb.multiprocessing.pooling import demand as demands
from fibernb.multiprocessing.pooling import members
from fibernb.multiprocessing.pooling.jobs import Fed, Items, Job, Listed
from fibernb.multiprocessing.pooling.limits import allow_files
from fibernb.multiprocessing.pooling.making import call_job, chunked, items_job
from fibernb.multiprocessing.pooling.owner import Owner
from fibernb.multiprocessing.pooling.reading import AHEAD_ITEMS, AHEAD_OF_EACH, Reader, Window, Windowed, chunks
from fibernb.multiprocessing.pooling.results import (
    Callback,
    CallResult,
    LazyResult,
    ListResult,
    Result,
    UnorderedResult,
)
from fibernb.multiprocessing.pooling.tie import Tie

__all__ = [
    "CLOSE",
    "INIT",
    "RUN",
    "TERMINATE",
    "ApplyResult",
    "AsyncResult",
    "IMapIterator",
    "IMapUnorderedIterator",
    "MapResult",
    "MaybeEncodingError",
    "Pool",
    "RemoteTraceback",
    "ThreadPool",
    "TimeoutError",
]
Function: TypeAlias = Callable[..., Any]

MAX_RETRIES: Final = 2


class Pool(library.Pool):
    """A pool of worker processes, as ``multiprocessing.Pool`` describes it.

    Parameters
    ----------
    processes : how many workers; a text such as ``"2:16"``: at least two, and up to sixteen while there is work for
        them; None: as many as the cluster has seats, also when that changes.
    initializer, initargs : every worker calls ``initializer(*initargs)`` first.
    maxtasksperchild : how many tasks (calls, or chunks of a map) a worker runs before a new one takes its place.
    context : makes the processes.
    max_retries : how often an item runs again after the worker that ran it has died; then its error is `WorkerDied`.

    Raises `ValueError` for numbers that cannot be, `TypeError` for an initializer that cannot be called.
    """

    _state: str
    _pool: list[Any]

    def __init__(
        self,
        processes: int | str | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
        *,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        self._pool = []
        self._state = INIT
        self._ctx = context or default.get_context()
        demand = demands.parse(processes) if isinstance(processes, str) else None
        wanted = self._number(processes) if demand is None else demand.least
        _check(maxtasksperchild, initializer, max_retries)
        self._maxtasksperchild = maxtasksperchild
        allow_files()
        tie = self._tie = Tie(self._ctx)
        hire = functools.partial(members.hire, tie, self.Process, self._ctx, initializer, tuple(initargs))
        owner = Owner(wanted=wanted, hire=hire, quota=maxtasksperchild, max_retries=max_retries, demand=demand)
        self._owner, self._pool, self._cache = owner, owner.staff.processes, owner.results
        self._start()
        finalizer: Any = util.Finalize
        self._terminate = finalizer(self, _end, args=(owner, tie), exitpriority=15)
        if processes is None:
            tie.follow(owner.resize)
        self._state = RUN

    def _number(self, processes: Any) -> int:
        number: int = self._ctx.cpu_count() if processes is None else processes
        if number < 1:
            raise ValueError("Number of processes must be at least 1")
        return number

    def _start(self) -> None:
        try:
            self._owner.staff.hire_up_to(self._owner.wanted)
        except BaseException:
            alive = [process for process in self._pool if process.exitcode is None]
            for process in alive:
                process.terminate()
            for process in alive:
                process.join()
            raise
        self._owner.thread.start()

    # ---- calls --------------------------------------------------------------------------------------------

    def apply(self, func: Function, args: Iterable[Any] = (), kwds: Mapping[str, Any] = {}) -> Any:
        return self._wait(self.apply_async(func, args, kwds))

    def apply_async(
        self,
        func: Function,
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] = {},
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> CallResult:
        self._check_running()
        result = CallResult(self, callback, error_callback)
        try:
            job = call_job(self._owner, result._job, func, args, kwds)
        except Exception as error:  # noqa: BLE001  whatever the pickling of the user's objects raises
            result.fail(0, error)
        else:
            self._entrust(job, result, func)
        return result

    def map(self, func: Function, iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        values: list[Any] = self._wait(self._map(func, iterable, chunksize))
        return values

    def starmap(self, func: Function, iterable: Iterable[Iterable[Any]], chunksize: int | None = None) -> list[Any]:
        values: list[Any] = self._wait(self._map(func, iterable, chunksize, star=True))
        return values

    def map_async(
        self,
        func: Function,
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> ListResult:
        return self._map(func, iterable, chunksize, callback, error_callback)

    def starmap_async(
        self,
        func: Function,
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> ListResult:
        return self._map(func, iterable, chunksize, callback, error_callback, star=True)

    def imap(self, func: Function, iterable: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:  # type: ignore[override]
        return self._imap(LazyResult, func, iterable, chunksize)

    def imap_unordered(self, func: Function, iterable: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:  # type: ignore[override]
        return self._imap(UnorderedResult, func, iterable, chunksize)

    def abandon(self, result: Any) -> None:
        """Nobody waits for this result any more: what waits of its call is dropped, what runs is interrupted."""
        self._owner.abandon(result._job)

    # ---- its life -----------------------------------------------------------------------------------------

    def resize(self, processes: int) -> None:
        """Have so many workers from now on. New ones start; surplus ones leave when they have done what they run."""
        self._check_running()
        number = self._number(processes)
        self._tie.unfollow()
        self._owner.resize(number)

    def close(self) -> None:
        util.debug("closing pool")
        if self._state == RUN:
            self._state = CLOSE
            self._owner.close()

    def join(self) -> None:
        util.debug("joining pool")
        if self._state == RUN:
            raise ValueError("Pool is still running")
        if self._state not in (CLOSE, TERMINATE):
            raise ValueError("In unknown state")
        self._owner.join()

    # ---- inside -------------------------------------------------------------------------------------------

    def _check_running(self) -> None:
        if self._state != RUN:
            raise ValueError("Pool not running")

    @property
    def _processes(self) -> int:
        return self._owner.wanted

    def _repopulate_pool(self) -> None:
        """Workers that have ended are replaced, as always: soon."""
        self._owner.staff.wake()

    def _wait(self, result: Any) -> Any:
        try:
            return result.get()
        except KeyboardInterrupt:
            self.abandon(result)
            raise

    def _map(
        self,
        func: Function,
        iterable: Iterable[Any],
        chunksize: int | None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
        *,
        star: bool = False,
    ) -> ListResult:
        self._check_running()
        if not hasattr(iterable, "__len__"):
            iterable = list(iterable)
        try:
            items = list(iterable)
        except Exception as error:  # noqa: BLE001  whatever the user's iterable raises
            failed = ListResult(self, 1, None, callback, error_callback)
            failed.fail(0, error)
            return failed
        chunk = self._chunk(len(items)) if chunksize is None else None if chunksize == 1 else operator.index(chunksize)
        result = ListResult(self, len(items), chunk, callback, error_callback)
        if not result.ready():
            self._submit(result, func, Listed(chunked(items, chunk)), chunk, star=star)
        return result

    def _chunk(self, length: int) -> int | None:
        """How many items are one task. None: that is not asked; else as the library has it."""
        return None if self._maxtasksperchild is None else -(-length // (4 * max(1, len(self._pool)))) or 1

    def _imap(self, kind: type[LazyResult], func: Function, iterable: Iterable[Any], chunksize: int) -> Iterator[Any]:
        self._check_running()
        if chunksize < 1:
            raise ValueError(f"Chunksize must be 1+, not {chunksize}")
        chunk = operator.index(chunksize) if chunksize > 1 else None
        result = kind(self, Window(max(AHEAD_ITEMS, AHEAD_OF_EACH * self._owner.wanted)))
        if type(iterable) in (list, tuple, range):
            self._send_on(result, func, chunked(iterable, chunk), chunk)  # type: ignore[arg-type]
        else:
            self._read_on(result, func, iterable if chunk is None else chunks(iterable, chunk), chunk)
        return result if chunk is None else itertools.chain.from_iterable(result)

    def _send_on(self, result: LazyResult, func: Function, items: Sequence[Any], chunk: int | None) -> None:
        """Send items as the consumer gets on."""
        job = self._submit(result, func, Windowed(items, result.window), chunk)
        if job is not None:
            result.on_room = functools.partial(self._owner.more, job)
        result.end(len(items))

    def _read_on(self, result: LazyResult, func: Function, source: Iterable[Any], chunk: int | None) -> None:
        """Read items, and send them, as the consumer gets on."""
        items = Fed()
        job = self._submit(result, func, items, chunk)
        if job is None:
            return

        def end(count: int, error: Exception | None) -> None:
            if error is not None:
                result.fail(count, error)
            result.end(count + (error is not None))

        Reader(source, items, result.window, functools.partial(self._owner.more, job), end).start()

    def _submit(
        self, result: Result, func: Function, items: Items, chunk: int | None, *, star: bool = False
    ) -> Job | None:
        try:
            job = items_job(self._owner, result._job, func, items, chunk, star=star)
        except Exception as error:  # noqa: BLE001  whatever the pickling of the function raises
            result.refuse(error)
            return None
        self._entrust(job, result, func)
        return job

    def _entrust(self, job: Job, result: Any, func: Function) -> None:
        """Have a job run. An interrupt meanwhile comes when it may run already, and the caller cannot stop it yet."""
        try:
            self._owner.submit(job, result, needs_of(func))
        except KeyboardInterrupt:
            self.abandon(result)
            raise


def _check(maxtasksperchild: Any, initializer: Any, max_retries: Any) -> None:
    if maxtasksperchild is not None and (not isinstance(maxtasksperchild, int) or maxtasksperchild <= 0):
        raise ValueError("maxtasksperchild must be a positive int or None")
    if initializer is not None and not callable(initializer):
        raise TypeError("initializer must be a callable")
    if not isinstance(max_retries, int) or max_retries < 0:
        raise ConfigError(f"max_retries cannot be {max_retries!r}. It accepts a whole number, 0 or more.")


def _end(owner: Owner, tie: Tie) -> None:
    """The end of a pool that was terminated, or that nobody has any more."""
    tie.unfollow()
    owner.end(TaskCancelled("the pool was terminated before this call had a result"))
