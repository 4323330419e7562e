"""FiberNB gives a notebook a parallel machine: ``import fibernb as fnb``.

What stands here loads at its first use, so that importing is quick.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any, Final

from fibernb.meta import meta
from fibernb.progress import progress
from fibernb.version import VERSION

if TYPE_CHECKING:
    from fibernb import actor, errors, exceptions, runtime_env, util
    from fibernb.client.actor_options import method
    from fibernb.client.actors import ActorClass, get_actor, kill
    from fibernb.client.api import cancel, connect, current_cluster, init, is_initialized, put, rank, shutdown, size
    from fibernb.client.cells import CellHandle, CellResult
    from fibernb.client.cluster import Cluster
    from fibernb.client.executor import Executor
    from fibernb.client.functions import DynamicObjectRefGenerator, RemoteFunction
    from fibernb.client.handles import ActorHandle, ActorMethod
    from fibernb.client.refs import ObjectRef
    from fibernb.client.remoting import remote
    from fibernb.client.runtime_context import get_gpu_ids, get_runtime_context
    from fibernb.client.seeing import available_resources, cluster_resources, nodes, timeline
    from fibernb.client.streams import ObjectRefGenerator
    from fibernb.client.waiting import get, wait
    from fibernb.collectives.calls import allgather, allreduce, barrier, broadcast, reduce_scatter

__version__: Final = VERSION

__all__ = [
    "ActorClass",
    "ActorHandle",
    "ActorMethod",
    "CellHandle",
    "CellResult",
    "Cluster",
    "DynamicObjectRefGenerator",
    "Executor",
    "ObjectRef",
    "ObjectRefGenerator",
    "RemoteFunction",
    "__version__",
    "actor",
    "allgather",
    "allreduce",
    "available_resources",
    "barrier",
    "broadcast",
    "cancel",
    "cluster_resources",
    "connect",
    "current_cluster",
    "errors",
    "exceptions",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "load_ipython_extension",
    "meta",
    "method",
    "nodes",
    "progress",
    "put",
    "rank",
    "reduce_scatter",
    "remote",
    "runtime_env",
    "shutdown",
    "size",
    "timeline",
    "unload_ipython_extension",
    "util",
    "wait",
]

_HOMES: Final[dict[str, str]] = {
    "ActorClass": "fibernb.client.actors",
    "ActorHandle": "fibernb.client.handles",
    "ActorMethod": "fibernb.client.handles",
    "CellHandle": "fibernb.client.cells",
    "CellResult": "fibernb.client.cells",
    "Cluster": "fibernb.client.cluster",
    "DynamicObjectRefGenerator": "fibernb.client.functions",
    "Executor": "fibernb.client.executor",
    "ObjectRef": "fibernb.client.refs",
    "ObjectRefGenerator": "fibernb.client.streams",
    "RemoteFunction": "fibernb.client.functions",
    "allgather": "fibernb.collectives.calls",
    "allreduce": "fibernb.collectives.calls",
    "available_resources": "fibernb.client.seeing",
    "barrier": "fibernb.collectives.calls",
    "broadcast": "fibernb.collectives.calls",
    "cancel": "fibernb.client.api",
    "cluster_resources": "fibernb.client.seeing",
    "connect": "fibernb.client.api",
    "current_cluster": "fibernb.client.api",
    "get": "fibernb.client.waiting",
    "get_actor": "fibernb.client.actors",
    "get_gpu_ids": "fibernb.client.runtime_context",
    "get_runtime_context": "fibernb.client.runtime_context",
    "init": "fibernb.client.api",
    "is_initialized": "fibernb.client.api",
    "kill": "fibernb.client.actors",
    "method": "fibernb.client.actor_options",
    "nodes": "fibernb.client.seeing",
    "put": "fibernb.client.api",
    "rank": "fibernb.client.api",
    "reduce_scatter": "fibernb.collectives.calls",
    "remote": "fibernb.client.remoting",
    "shutdown": "fibernb.client.api",
    "size": "fibernb.client.api",
    "timeline": "fibernb.client.seeing",
    "wait": "fibernb.client.waiting",
}
_MODULES: Final = ("actor", "errors", "exceptions", "runtime_env", "util")
_LIBRARIES_OF_RAY: Final = ("air", "data", "llm", "rllib", "serve", "train", "tune", "workflow")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"fibernb.{name}")
    raise AttributeError(f"module 'fibernb' has no attribute {name!r}{_hint(name)}")


def _hint(name: str) -> str:
    """Where else it is, of what is looked for in the wrong place."""
    if name in _LIBRARIES_OF_RAY:
        return ": Ray's libraries are not part of it, its core is"
    if name.startswith("_") or importlib.util.find_spec(f"fibernb.{name}") is not None:  # a module of ours
        return ""
    return f": it is fibernb.util.{name}" if hasattr(importlib.import_module("fibernb.util"), name) else ""


def __dir__() -> list[str]:
    return __all__


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext fibernb``: the magics."""
    importlib.import_module("fibernb.notebook").load_ipython_extension(ipython, greets=True)


def unload_ipython_extension(ipython: Any) -> None:
    """``%unload_ext fibernb``: takes everything back."""
    importlib.import_module("fibernb.notebook").unload_ipython_extension(ipython)
