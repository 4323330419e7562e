"""FiberNB and its peers behind one small protocol: a map, separate submissions, one synchronous call."""

from __future__ import annotations

import importlib.util
import logging
import multiprocessing
import multiprocessing.pool
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeAlias

import fibernb as fnb
import fibernb.multiprocessing as fibernb_multiprocessing

Function: TypeAlias = Callable[[int], int]


class Peer(Protocol):
    """A pool of workers that has been started and has run something on each of them."""

    def map(self, function: Function, count: int) -> list[int]:
        """``function`` of 0 to ``count - 1``, by the peer's own bulk call, one task each."""

    def submit_each(self, function: Function, count: int) -> list[int]:
        """The same by one submission each, then all results."""

    def call(self, function: Function) -> int:
        """One call, waited for."""


Start: TypeAlias = Callable[[int], AbstractContextManager[Peer]]


class FibernbPeer:
    def __init__(self, executor: fnb.Executor) -> None:
        self._executor = executor

    def map(self, function: Function, count: int) -> list[int]:
        return list(self._executor.map(function, range(count)))

    def submit_each(self, function: Function, count: int) -> list[int]:
        remote = fnb.remote(function)
        return list(fnb.get([remote.remote(value) for value in range(count)]))

    def call(self, function: Function) -> int:
        return int(fnb.get(fnb.remote(function).remote(0)))


@contextmanager
def fibernb(workers: int) -> Iterator[Peer]:
    fnb.init().scale(workers)
    with fnb.Executor() as executor:
        yield FibernbPeer(executor)
    fnb.shutdown()


class PoolPeer:
    def __init__(self, pool: multiprocessing.pool.Pool) -> None:
        self._pool = pool

    def map(self, function: Function, count: int) -> list[int]:
        return self._pool.map(function, range(count), chunksize=1)

    def submit_each(self, function: Function, count: int) -> list[int]:
        return [pending.get() for pending in [self._pool.apply_async(function, (i,)) for i in range(count)]]

    def call(self, function: Function) -> int:
        return self._pool.apply(function, (0,))


@contextmanager
def pool(workers: int) -> Iterator[Peer]:
    with multiprocessing.Pool(workers) as started:
        yield PoolPeer(started)


@contextmanager
def fibernb_pool(workers: int) -> Iterator[Peer]:
    """Leaves the cluster to whoever shuts it down: the executor above, where both are measured."""
    with fibernb_multiprocessing.Pool(workers) as started:
        yield PoolPeer(started)


class ExecutorPeer:
    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self._executor = executor

    def map(self, function: Function, count: int) -> list[int]:
        return list(self._executor.map(function, range(count)))

    def submit_each(self, function: Function, count: int) -> list[int]:
        return [future.result() for future in [self._executor.submit(function, i) for i in range(count)]]

    def call(self, function: Function) -> int:
        return self._executor.submit(function, 0).result()


@contextmanager
def process_pool_executor(workers: int) -> Iterator[Peer]:
    with ProcessPoolExecutor(workers) as executor:
        yield ExecutorPeer(executor)


class RayPeer:
    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._remotes: dict[Function, Any] = {}

    def _remote(self, function: Function) -> Any:
        return self._remotes.setdefault(function, self._ray.remote(function))

    def map(self, function: Function, count: int) -> list[int]:
        return self.submit_each(function, count)  # Ray has no bulk call for tasks

    def submit_each(self, function: Function, count: int) -> list[int]:
        remote = self._remote(function)
        return list(self._ray.get([remote.remote(value) for value in range(count)]))

    def call(self, function: Function) -> int:
        return int(self._ray.get(self._remote(function).remote(0)))


@contextmanager
def ray(workers: int) -> Iterator[Peer]:
    import ray as module

    module.init(num_cpus=workers, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    yield RayPeer(module)
    module.shutdown()


class DaskPeer:
    def __init__(self, client: Any) -> None:
        self._client = client

    def map(self, function: Function, count: int) -> list[int]:
        return list(self._client.gather(self._client.map(function, range(count), pure=False)))

    def submit_each(self, function: Function, count: int) -> list[int]:
        submit = self._client.submit
        return list(self._client.gather([submit(function, value, pure=False) for value in range(count)]))

    def call(self, function: Function) -> int:
        return int(self._client.submit(function, 0, pure=False).result())


@contextmanager
def dask(workers: int) -> Iterator[Peer]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield DaskPeer(client)


class IpyparallelPeer:
    def __init__(self, view: Any) -> None:
        self._view = view

    def map(self, function: Function, count: int) -> list[int]:
        return list(self._view.map_sync(function, range(count)))

    def submit_each(self, function: Function, count: int) -> list[int]:
        return [pending.get() for pending in [self._view.apply_async(function, i) for i in range(count)]]

    def call(self, function: Function) -> int:
        return int(self._view.apply_sync(function, 0))


@contextmanager
def ipyparallel(workers: int) -> Iterator[Peer]:
    import ipyparallel as module

    with module.Cluster(n=workers, log_level=logging.ERROR) as client:
        yield IpyparallelPeer(client.load_balanced_view())


LIGHT: dict[str, Start] = {
    "FiberNB": fibernb,
    "FiberNB Pool": fibernb_pool,
    "multiprocessing.Pool": pool,
    "ProcessPoolExecutor": process_pool_executor,
}
HEAVY: dict[str, tuple[str, Start]] = {
    "Ray": ("ray", ray),
    "Dask distributed": ("distributed", dask),
    "ipyparallel": ("ipyparallel", ipyparallel),
}


def installed_heavy() -> dict[str, Start]:
    """The peers that are packages of their own, as far as they are installed here."""
    return {name: start for name, (module, start) in HEAVY.items() if importlib.util.find_spec(module)}
