"""The cluster as a backend of joblib, so that scikit-learn and everything else that uses joblib run on it.

    fibernb.joblib.register()
    with joblib.parallel_config("fibernb"):
        search.fit(X, y)

Large arrays among the arguments go to each host once in a `Parallel` call, however many tasks get them; tasks see them
read-only, as they do with joblib's own processes. A task that runs `Parallel` itself lends its seat meanwhile.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from joblib.parallel import (
    AutoBatchingMixin,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
    register_parallel_backend,
)

from fibernb.client import current
from fibernb.client.api import current_cluster, put, size
from fibernb.client.executor import Executor, ExecutorFuture
from fibernb.client.refs import ObjectRef
from fibernb.errors import TaskCancelled

NAME: Final = "fibernb"
INITIALIZING: Final = ("initializer", "initargs")
LARGE_BYTES: Final = 100_000  # arguments from this size on are put into shared memory once a call


def register(make_default: bool = False) -> None:
    """Make the backend ``"fibernb"`` known to joblib.

    Parameters
    ----------
    make_default : also use it where no backend is named.
    """
    register_parallel_backend(NAME, Backend, make_default=make_default)


class Backend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # joblib has no types
    """Runs the batches of a `joblib.Parallel` as tasks of the cluster of this process, which is started if need be.

    ``n_jobs`` bounds how many of its tasks are under way; -1, the default here, stands for every seat.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(self, nesting_level: int | None = None, **options: Any) -> None:
        super().__init__(nesting_level=nesting_level)
        self._options = options  # of `fibernb.Executor`
        self._workers: Executor | None = None  # so called by joblib's own backends
        self._given: dict[str, Any] = {}  # what that was made with
        self._pending: set[ExecutorFuture] = set()
        self._shared = SharedArguments()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.nesting_level, self._options)

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many tasks run at once at most; negative numbers count down from the number of seats."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            n_jobs = self.default_n_jobs
        return n_jobs if n_jobs > 0 else max(1, _seats() + 1 + n_jobs)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **given: Any) -> int:
        """Get ready for a `Parallel`: the number of its jobs. What concerns joblib's own processes changes nothing."""
        count = self.effective_n_jobs(n_jobs)
        if count == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        initializing: dict[str, Any] = {name: given[name] for name in INITIALIZING if name in given}
        self._given = {**self._options, **initializing, "max_workers": count}
        self._workers = Executor(**self._given)
        return count

    def submit(self, func: Any, callback: Callable[[Future[Any]], object] | None = None) -> ExecutorFuture:
        """Start a batch of calls; ``callback`` gets its future when it has ended."""
        assert self._workers is not None, "joblib configures a backend before it submits"
        calls, values = self._shared.taken_out(func)
        future = self._workers.submit(run_batch, calls, *values)
        assert isinstance(future, ExecutorFuture)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """The values of a batch that has ended."""
        if out.cancelled():
            raise TaskCancelled("the batch was cancelled with the rest of its Parallel call")
        return out.result()

    def retrieval_context(self) -> contextlib.AbstractContextManager[object]:
        """A task that waits for its own Parallel lends its seat, since joblib waits by looking again and again."""
        return contextlib.nullcontext() if current.session is None else current.session.waiting()

    def get_nested_backend(self) -> tuple[ParallelBackendBase, int]:
        """What a `Parallel` within a task runs on: the cluster, if it asks for more than one job."""
        options = {name: value for name, value in self._options.items() if name not in INITIALIZING}
        return Backend(nesting_level=(self.nesting_level or 0) + 1, **options), 1

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel what waits and interrupt what runs."""
        for future in list(self._pending):
            if not future.cancel() and future.ref is not None:
                future.ref.cancel()
        if self._workers is not None:
            self._workers.shutdown(wait=False)
            self._workers = Executor(**self._given) if ensure_ready else None

    def stop_call(self) -> None:
        """A `Parallel` call has ended: what its tasks shared is not needed any longer."""
        self._shared = SharedArguments()

    def terminate(self) -> None:
        """Leave the executor; the cluster goes on."""
        if self._workers is not None:
            self._workers.shutdown(wait=False)
            self._workers = None
        self.reset_batch_stats()


class Shared:
    """Stands for a large argument in a batch that travels."""

    def __init__(self, index: int) -> None:
        self.index = index


class SharedArguments:
    """The large arguments of one `Parallel` call, each put into shared memory once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, ObjectRef]] = {}  # by identity; the object is kept, and so is its identity

    def taken_out(self, batch: Any) -> tuple[Any, list[ObjectRef]]:
        """A batch like this one with its large arguments replaced by `Shared`, and references to those."""
        refs: list[ObjectRef] = []
        places: dict[int, Shared] = {}

        def replaced(value: Any) -> Any:
            if size_bytes(value) < LARGE_BYTES:
                return value
            if id(value) not in places:
                places[id(value)] = Shared(len(refs))
                refs.append(self._ref_of(value))
            return places[id(value)]

        items = [
            (function, [replaced(value) for value in args], {name: replaced(value) for name, value in kwargs.items()})
            for function, args, kwargs in batch.items
        ]
        if not refs:
            return batch, refs
        lighter = copy.copy(batch)
        lighter.items = items
        return lighter, refs

    def _ref_of(self, value: object) -> ObjectRef:
        if id(value) not in self._known:
            self._known[id(value)] = (value, put(value))
        return self._known[id(value)][1]


def run_batch(batch: Any, *values: Any) -> Any:
    """Run a batch on an engine, where the references to its large arguments have become values."""

    register()  # for a Parallel within, which names it

    def restored(value: Any) -> Any:
        return values[value.index] if isinstance(value, Shared) else value

    if values:
        batch.items = [
            (function, [restored(value) for value in args], {name: restored(value) for name, value in kwargs.items()})
            for function, args, kwargs in batch.items
        ]
    return batch()


def size_bytes(value: Any) -> int:
    """The size of an array, of a sparse matrix's data, or of a data frame; 0 for anything else."""
    if hasattr(value, "memory_usage") and hasattr(value, "columns"):
        return int(value.memory_usage().sum())
    data = value if hasattr(value, "nbytes") else getattr(value, "data", None)
    size = getattr(data, "nbytes", 0)
    return size if isinstance(size, int) else 0


def _seats() -> int:
    current_cluster()
    return size()


def _again(nesting_level: int | None, options: dict[str, Any]) -> Backend:
    """Called while unpickling."""
    return Backend(nesting_level=nesting_level, **options)
