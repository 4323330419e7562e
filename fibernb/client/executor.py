"""``fibernb.Executor``: the cluster as a `concurrent.futures.Executor`."""

from __future__ import annotations

import atexit
import concurrent.futures
import sys
import threading
import time
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

from fibernb.client import api, current, options
from fibernb.client.functions import RemoteFunction
from fibernb.client.initializing import Initializer
from fibernb.client.refs import Group, ObjectRef, TaskFuture
from fibernb.client.session import Session
from fibernb.errors import ConfigError, GetTimeout

PLAIN: Final = frozenset({types.FunctionType, types.BuiltinFunctionType})
KNOWN_FUNCTIONS: Final = 256  # that an executor keeps prepared for their next calls

_executors: Final[weakref.WeakSet[Executor]] = weakref.WeakSet()
_interpreter_ends = False


class Executor(concurrent.futures.Executor):
    """Runs calls on the cluster of this process.

    Parameters
    ----------
    max_workers : at most so many of its calls are under way at once, and the seats of a cluster that has to be started
        for it; None: no limit of its own.
    mp_context : accepted for programs that were written for a process pool; it changes nothing.
    initializer : called with ``initargs`` on each engine before the first of these calls runs there. When it fails the
        executor is broken: its calls end with `concurrent.futures.BrokenExecutor`.
    max_tasks_per_child : an engine is replaced after so many calls of one function.
    given : options of the calls, by the names that ``fibernb.remote`` takes.

    Shutting the executor down leaves the cluster as it is. When a script ends, calls of its executors are waited for;
    an interactive session does not wait.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        mp_context: object = None,  # noqa: ARG002
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
        **given: Any,
    ) -> None:
        if max_workers is not None and (type(max_workers) is not int or max_workers < 1):
            raise ConfigError(f"max_workers must be greater than 0, and a whole number; {max_workers!r} is not")
        if max_tasks_per_child is not None:
            given["max_calls"] = max_tasks_per_child
        self._options = options.parse(given)
        if self._options.num_returns != 1:
            raise ConfigError("an executor's calls return one value each: leave num_returns out")
        self._initializer = None if initializer is None else Initializer(initializer, tuple(initargs))
        if max_workers is not None and current.session is None:
            api.init(workers=max_workers)
        self._session: Session = current.require()
        self._window = Window(max_workers)
        self._lock = threading.Lock()
        self._is_shut = False
        self._functions: dict[Callable[..., Any], RemoteFunction] = {}
        self._groups: set[Group | None] = set()
        _executors.add(self)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> TaskFuture:
        """Start ``fn(*args, **kwargs)``: its future. Once it runs on an engine it cannot be cancelled."""
        function = self._function(fn)
        future = ExecutorFuture(lambda: self._note(function.remote(*args, **kwargs)))
        if self._initializer is not None:
            future.add_done_callback(self._initializer.look)
        self._window.run(future)
        return future

    def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        """The values of ``fn`` over items, in order, as they come.

        Parameters
        ----------
        timeout : seconds from this call until the last value; `TimeoutError` when they are over.
        chunksize : not needed: calls travel in batches that follow their run time.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be 1 or more")
        deadline = None if timeout is None else time.monotonic() + timeout
        items = zip(*iterables, strict=False)
        if self._window.limit is not None or self._initializer is not None:
            return _values_of_futures([self.submit(fn, *args) for args in items], deadline)
        refs = self._function(fn).starmap(items)
        if refs:
            self._note(refs[0])
        return _values_of_refs(self._session, refs, deadline)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls.

        Parameters
        ----------
        wait : return when the last call has ended.
        cancel_futures : cancel the calls that have not begun.
        """
        with self._lock:
            self._is_shut = True
        if cancel_futures:
            self._window.cancel()
            self._cancel_waiting()
        while wait and (self._window.waiting or self._unfinished()):
            refs = self._unfinished()
            self._session.wait(lambda refs=refs: all(ref.answer is not None for ref in refs))  # type: ignore[misc]

    @property
    def _broken(self) -> bool:
        return self._initializer is not None and self._initializer.failed is not None

    def _function(self, fn: Callable[..., Any]) -> RemoteFunction:
        with self._lock:
            if _interpreter_ends:
                raise RuntimeError("cannot schedule new futures after interpreter shutdown")
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._initializer is not None:
                self._initializer.check()
            found = self._functions.get(fn) if type(fn) in PLAIN else None
            return found or self._prepare(fn)

    def _prepare(self, fn: Callable[..., Any]) -> RemoteFunction:
        """The remote function of ``fn``, which is kept only where that keeps nothing alive that is the user's."""
        work = fn if self._initializer is None else self._initializer.before(fn)
        function = RemoteFunction(work, self._options)
        if type(fn) in PLAIN:
            if len(self._functions) >= KNOWN_FUNCTIONS:
                self._functions.clear()
            self._functions[fn] = function
        return function

    def _note(self, ref: ObjectRef) -> ObjectRef:
        self._groups.add(ref.group)
        return ref

    def _unfinished(self) -> list[ObjectRef]:
        return [ref for ref in list(self._session.books.ledger.pending.values()) if ref.group in self._groups]

    def _cancel_waiting(self) -> None:
        refs = self._unfinished()
        if refs and self._session.over is None:
            running = {seat.task for seat in self._session.status().engines}
            self._session.cancel([ref for ref in refs if ref.id not in running])


class ExecutorFuture(TaskFuture):
    """The future of an executor's call, which ``submit`` sends off."""

    def __init__(self, submit: Callable[[], ObjectRef]) -> None:
        super().__init__()
        self._submit: Callable[[], ObjectRef] | None = submit

    def start(self) -> ObjectRef | None:
        """Submit the call, unless the future was cancelled meanwhile; what goes wrong is the future's answer."""
        submit, self._submit = self._submit, None  # what it was given is not kept
        if submit is None or self.cancelled():
            return None
        try:
            ref = submit()
        except Exception as error:  # noqa: BLE001  as in the standard library, it comes out of result()
            self.fail(error)
            return None
        self.ref = ref
        ref.add_done_callback(self.take)
        return ref

    def cancel(self) -> bool:
        return not self.running() and super().cancel()

    def running(self) -> bool:
        """Whether the call runs on an engine now, as the hub sees it."""
        ref = self.ref
        if ref is None or self.done():
            return False
        session = cast(Session, ref.session)
        return session.over is None and any(seat.task == ref.id for seat in session.status().engines)


class Window:
    """Lets at most ``limit`` calls be under way; the others wait their turn."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.waiting: deque[ExecutorFuture] = deque()
        self._running = 0
        self._lock = threading.RLock()

    def run(self, future: ExecutorFuture) -> None:
        """Start a call, now or when another one has ended."""
        if self.limit is None:
            future.start()
            return
        with self._lock:
            self.waiting.append(future)
        self._fill()

    def cancel(self) -> None:
        """Cancel the calls that wait."""
        while self.waiting:
            self.waiting.pop().cancel()

    def _fill(self) -> None:
        while future := self._next():
            ref = future.start()
            if ref is None:
                self._leave(None)
            else:
                ref.add_done_callback(self._leave)

    def _next(self) -> ExecutorFuture | None:
        with self._lock:
            if not self.waiting or (self.limit is not None and self._running >= self.limit):
                return None
            self._running += 1
            return self.waiting.popleft()

    def _leave(self, ref: ObjectRef | None) -> None:
        with self._lock:
            self._running -= 1
        if ref is not None:
            self._fill()


def _values_of_refs(session: Session, refs: list[ObjectRef], deadline: float | None) -> Iterator[Any]:
    refs.reverse()
    try:
        while refs:
            ref = refs[-1]
            if ref.answer is None and not session.wait(ref.done, _left(deadline)):
                raise GetTimeout("not every value of the map was ready in time; the calls left are cancelled")
            refs.pop()
            yield ref.result()
    finally:
        if refs and session.over is None:
            session.cancel(refs)


def _values_of_futures(futures: list[TaskFuture], deadline: float | None) -> Iterator[Any]:
    futures.reverse()
    try:
        while futures:
            yield futures.pop().result(_left(deadline))
    finally:
        for future in futures:
            future.cancel()


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _wait_at_exit() -> None:
    """The calls of a script are over before it leaves its cluster."""
    global _interpreter_ends
    _interpreter_ends = True
    if hasattr(sys, "ps1"):  # interactive: nobody waits there for what runs
        return
    for executor in list(_executors):
        if executor._session.over is None:
            executor.shutdown()


atexit.register(_wait_at_exit)  # after the client's own, which leaves the cluster: so it comes before that
