"""FiberNB gives a notebook a parallel machine: ``import fibernb as fnb``.

What stands here loads at its first use, so that importing is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from fibernb.progress import progress
from fibernb.version import VERSION

if TYPE_CHECKING:
    from fibernb import errors, util
    from fibernb.client.api import (
        available_resources,
        cancel,
        cluster_resources,
        connect,
        current_cluster,
        get,
        get_runtime_context,
        init,
        is_initialized,
        nodes,
        put,
        rank,
        remote,
        shutdown,
        size,
        wait,
    )
    from fibernb.client.cells import CellHandle, CellResult
    from fibernb.client.cluster import Cluster
    from fibernb.client.executor import Executor
    from fibernb.client.functions import RemoteFunction
    from fibernb.client.refs import ObjectRef

__version__: Final = VERSION

__all__ = [
    "CellHandle",
    "CellResult",
    "Cluster",
    "Executor",
    "ObjectRef",
    "RemoteFunction",
    "__version__",
    "available_resources",
    "cancel",
    "cluster_resources",
    "connect",
    "current_cluster",
    "errors",
    "get",
    "get_runtime_context",
    "init",
    "is_initialized",
    "load_ipython_extension",
    "nodes",
    "progress",
    "put",
    "rank",
    "remote",
    "shutdown",
    "size",
    "unload_ipython_extension",
    "util",
    "wait",
]

_API: Final = "fibernb.client.api"

_HOMES: Final[dict[str, str]] = {
    "CellHandle": "fibernb.client.cells",
    "CellResult": "fibernb.client.cells",
    "Cluster": "fibernb.client.cluster",
    "Executor": "fibernb.client.executor",
    "ObjectRef": "fibernb.client.refs",
    "RemoteFunction": "fibernb.client.functions",
    "available_resources": _API,
    "cancel": _API,
    "cluster_resources": _API,
    "connect": _API,
    "current_cluster": _API,
    "get": _API,
    "get_runtime_context": _API,
    "init": _API,
    "is_initialized": _API,
    "nodes": _API,
    "put": _API,
    "rank": _API,
    "remote": _API,
    "shutdown": _API,
    "size": _API,
    "wait": _API,
}
_MODULES: Final = ("errors", "util")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"fibernb.{name}")
    raise AttributeError(f"module 'fibernb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext fibernb``: the magics."""
    importlib.import_module("fibernb.notebook").load_ipython_extension(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """``%unload_ext fibernb``: takes everything back."""
    importlib.import_module("fibernb.notebook").unload_ipython_extension(ipython)
