"""The functions of ``import fibernb as fnb``: one cluster for the process, started at first use."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from fibernb import config as configuration
from fibernb.client import arguments, current, job, refs, shell
from fibernb.client.cells import Handle
from fibernb.client.cluster import Cluster
from fibernb.client.dialing import HubConnector
from fibernb.client.job import Job
from fibernb.client.refs import ObjectRef
from fibernb.client.session import Session
from fibernb.client.streams import ObjectRefGenerator
from fibernb.collectives import calls
from fibernb.config import Config
from fibernb.engine import context
from fibernb.errors import BackendError, ClusterError, ConfigError, NotConnected
from fibernb.hub.connection import Connection, list_connections, read_connection
from fibernb.hub.launch import launch
from fibernb.model import ObjectId

SHORT_LEASE_S: Final = 5.0
PREPARE_AFTER_S: Final = 0.5  # a script that says `init` may soon have large values: memory is warmed for them
BACKENDS: Final = ("local",)

_lock = threading.RLock()
_cluster: Cluster | None = None
_forked_from: Connection | None = None


def init(
    workers: int | str | None = None,
    backend: str | None = None,
    name: str | None = None,
    *,
    address: str | None = None,
    namespace: str | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    **options: Any,
) -> Cluster:
    """Start a cluster for this process, or give the one that there is.

    Parameters
    ----------
    workers : seats; None: as configured, or one a core. ``num_cpus`` is another name for it.
    backend : where engines run: "local".
    name : of the cluster; None: one is made up.
    address : "auto" attaches to the one cluster of yours that runs, a name or directory to that one, as `connect`.
    namespace : where the names of actors hold that are made and looked for here.
    runtime_env : environment of all tasks and actors of this process; their own ``runtime_env`` goes before it.
    options : any other key of the configuration, such as ``lease_s``; and of Ray's: ``num_gpus``, ``resources``,
        ``object_store_memory``.

    Raises `ConfigError` for options that cannot be, `BackendError` or `ClusterError` when the cluster does not start.
    """
    if isinstance(workers, str):  # Ray's first parameter is the address
        workers, address = None, workers
    with _lock:
        cluster = _initialized(workers, backend, name, address, job.configured(namespace, runtime_env), options)
    if cluster.session.store is not None and context.current() is None:
        cluster.session.store.prepare(PREPARE_AFTER_S)
    return cluster


def _initialized(
    workers: int | None = None,
    backend: str | None = None,
    name: str | None = None,
    address: str | None = None,
    shared: job.Job | None = None,
    options: Mapping[str, Any] | None = None,
) -> Cluster:
    given = arguments.translated(options or {})
    found = _made(workers, backend, name, given) if address in (None, "local") else _attached_to(address)
    if shared is not None:
        found.share(shared)
    return found


def _attached_to(address: str) -> Cluster:
    if "://" in address or ":" in address:
        raise ConfigError(
            f"address cannot be {address!r}. It accepts 'auto', or the name or directory of a cluster "
            "(`fibernb list` shows them)"
        )
    return connect(None if address == "auto" else address)


def _made(workers: int | None, backend: str | None, name: str | None, given: dict[str, Any]) -> Cluster:
    settings = _settings(workers, backend, name, given)
    if context.current() is not None and name is None:
        return current_cluster()
    if is_initialized():
        return _again(settings, name, workers if workers is not None else given.get("workers"))
    return _take(_started(settings))


def connect(name: str | None = None) -> Cluster:
    """Attach to a cluster that runs, by its name, directory or connection file; from now on this process uses it.

    Raises `NotConnected` when there is none.
    """
    with _lock:
        settings = configuration.load()
        if _cluster is not None and is_initialized():
            if name in (None, _cluster.name):
                return _cluster
            raise ConfigError(f"this process uses cluster {_cluster.name}: fibernb.shutdown() first, or detach")
        return _take(_attached(read_connection(name or _only_name(settings), settings), settings))


def shutdown() -> None:
    """Leave the cluster; it ends if this process started it and nobody else is attached. Harmless twice."""
    global _cluster
    with _lock:
        leaving, _cluster = _cluster, None
        current.use(None)
        job.use(Job())
        if leaving is not None and not leaving.session.foreign:
            leaving.close()


def is_initialized() -> bool:
    """Whether this process is attached to a cluster that lives."""
    return _cluster is not None and not _cluster.session.foreign and _cluster.session.over is None


def current_cluster() -> Cluster:
    """The cluster of this process, started if there is none."""
    with _lock:
        if _cluster is not None and is_initialized():
            return _cluster
        engine = context.current()
        if engine is not None:
            return _take(_nested(engine))
        if _forked_from is not None:
            return _take(_attached(_forked_from, _short_lived(configuration.load())))
        return _initialized()


# ---- values and tasks -----------------------------------------------------------------------------------


def put(value: Any) -> ObjectRef:
    """Give a value a reference, to pass it to many tasks.

    A large array goes into shared memory once, and is read there, by everybody who gets it.
    """
    if isinstance(value, ObjectRef):
        raise TypeError("put takes a value, and this is a reference already")
    return _session().put(value)


def cancel(ref: ObjectRef | ObjectRefGenerator | Handle, *, force: bool = False, recursive: bool = True) -> None:
    """Stop a task that is not done: running Python code gets a KeyboardInterrupt, `get` raises `TaskCancelled`.

    Parameters
    ----------
    ref : of a task, or the handle of a cell, which stops it on all of its ranks.
    force : end the engine that runs it, at once.
    recursive : stop the tasks that it has submitted as well.
    """
    if not isinstance(ref, ObjectRef | ObjectRefGenerator | Handle):
        raise TypeError(f"cancel takes an ObjectRef or the handle of a cell, not {type(ref).__name__}")
    ref.cancel(force, recursive)


# ---- the cluster ----------------------------------------------------------------------------------------


def rank() -> int:
    """The seat of the engine that this runs on, or the rank in its `Ring`. Raises `ClusterError` outside of engines."""
    member = calls.ring()
    return _engine().rank if member is None else member.rank


def size() -> int:
    """How many seats the cluster has: in an engine, when its last cell began; in a `Ring`, how many members it has."""
    member = calls.ring()
    if member is not None:
        return member.size
    engine = context.current()
    known = None if engine is None else engine.size
    return current_cluster().size if known is None else known


def _engine() -> context.EngineContext:
    engine = context.current()
    if engine is None:
        raise ClusterError(
            "only code on an engine has a rank: run it in a %%parallel cell or with cluster.ranks[:].apply"
        )
    return engine


# ---- starting and attaching -----------------------------------------------------------------------------


def _session() -> Session:
    return current.session or current.require()


def _settings(workers: int | None, backend: str | None, name: str | None, given: dict[str, Any]) -> Config:
    seats = given.get("workers") if workers is None else workers
    settings = configuration.load({**given, "workers": seats, "backend": backend, "name": name})
    if settings.backend not in BACKENDS:
        raise BackendError(
            f"there is no backend {settings.backend!r} in this version of FiberNB: use {', '.join(BACKENDS)}"
        )
    return settings


def _again(settings: Config, name: str | None, workers: int | None) -> Cluster:
    """The cluster that there is, with as many seats as are asked for."""
    assert _cluster is not None
    if name not in (None, _cluster.name):
        raise ConfigError(
            f"this process uses cluster {_cluster.name}: call fibernb.shutdown() before init(name={name!r}), "
            "or fibernb.connect to attach to a cluster that runs"
        )
    if workers is not None and settings.workers is not None:
        _cluster.scale(settings.workers, wait=False)
    return _cluster


def _started(settings: Config) -> Cluster:
    connection = launch(settings)
    cluster = _open(connection, settings, owned=True)
    try:
        cluster.adopt(now=False)
        seats = settings.workers if settings.workers is not None else _cores(settings)
        cluster.scale(seats, wait=False)
    except BaseException:
        cluster.close()
        raise
    return cluster


def _attached(connection: Connection, settings: Config) -> Cluster:
    cluster = _open(connection, settings, owned=False)
    cluster.adopt()
    return cluster


def _nested(engine: context.EngineContext) -> Cluster:
    """The cluster that this engine belongs to, for tasks that submit tasks."""
    settings = configuration.saved(Path(engine.directory))
    connection = read_connection(engine.directory)
    connector = HubConnector(connection, _short_lived(settings), settings.lease_s, engine.engine)
    return Cluster(Session(connector, lambda: engine.task or None), connector, owned=False)


def _short_lived(settings: Config) -> Config:
    """For a process that may end without a word: when it is gone it does not come back."""
    return msgspec.structs.replace(settings, lease_s=min(settings.lease_s, SHORT_LEASE_S))


def _open(connection: Connection, settings: Config, owned: bool) -> Cluster:
    connector = HubConnector(connection, settings, patience_s=settings.lease_s)
    return Cluster(Session(connector), connector, owned)


def _take(cluster: Cluster) -> Cluster:
    global _cluster, _forked_from
    shell.load_extension()
    _cluster, _forked_from = cluster, None
    current.use(cluster.session)
    return cluster


def _only_name(settings: Config) -> str:
    found = list_connections(settings)
    if not found:
        raise NotConnected("no cluster of yours runs here: fibernb.init() starts one")
    if len(found) > 1:
        names = ", ".join(connection.name for connection in found)
        raise ConfigError(f"several clusters run: {names}. Say which one: fibernb.connect({found[0].name!r})")
    return found[0].directory


def _cores(settings: Config) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if settings.max_workers is None else min(cores, settings.max_workers)


def _start_implicitly() -> Session:
    return current_cluster().session


def _forget_in_child() -> None:
    """In a forked child: the next use attaches to the parent's cluster as a client of its own."""
    global _cluster, _forked_from, _lock
    _lock = threading.RLock()
    parents, _cluster = _cluster, None
    if parents is not None:
        _forked_from = parents.connection
    current.use(None)


def revive(id_: ObjectId, cluster: str) -> ObjectRef:
    """A reference that has travelled inside of a value, as this process's session knows it."""
    found = current.require()
    if found.name != cluster:
        raise NotConnected(f"a reference of cluster {cluster} came to a process that uses cluster {found.name}")
    return found.borrow(id_)


current.starter = _start_implicitly
refs.reviver = revive
os.register_at_fork(after_in_child=_forget_in_child)
atexit.register(shutdown)
