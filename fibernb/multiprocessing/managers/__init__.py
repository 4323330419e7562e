"""Managers: objects in a server process, used through proxies by tasks, processes and notebooks.

The names are those of ``multiprocessing.managers``, and of Fiber's module of that name.
"""

from __future__ import annotations

from multiprocessing.managers import (  # type: ignore[attr-defined]  # not all of them are in its stub
    Array,
    BaseListProxy,
    BasePoolProxy,
    Namespace,
    ProcessLocalSet,
    RemoteError,
    State,
    Token,
    Value,
    all_methods,
    convert_to_error,
    dispatch,
    listener_client,
    public_methods,
)

from fibernb.multiprocessing.managers.asynchronous import (
    AsyncArrayProxy,
    AsyncAutoProxy,
    AsyncBaseProxy,
    AsyncDictProxy,
    AsyncListProxy,
    AsyncManager,
    AsyncProxyResult,
    AsyncValueProxy,
    MakeAsyncProxyType,
)
from fibernb.multiprocessing.managers.base import BaseManager
from fibernb.multiprocessing.managers.proxies import (
    AcquirerProxy,
    ArrayProxy,
    AutoProxy,
    BarrierProxy,
    BaseProxy,
    ConditionProxy,
    DictProxy,
    EventProxy,
    IteratorProxy,
    ListProxy,
    MakeProxyType,
    NamespaceProxy,
    PoolProxy,
    RebuildProxy,
    ValueProxy,
)
from fibernb.multiprocessing.managers.server import Server
from fibernb.multiprocessing.managers.shared import SharedMemoryManager, SharedMemoryServer
from fibernb.multiprocessing.managers.sync import SyncManager

__all__ = [
    "AcquirerProxy",
    "Array",
    "ArrayProxy",
    "AsyncArrayProxy",
    "AsyncAutoProxy",
    "AsyncBaseProxy",
    "AsyncDictProxy",
    "AsyncListProxy",
    "AsyncManager",
    "AsyncProxyResult",
    "AsyncValueProxy",
    "AutoProxy",
    "BarrierProxy",
    "BaseListProxy",
    "BaseManager",
    "BasePoolProxy",
    "BaseProxy",
    "ConditionProxy",
    "DictProxy",
    "EventProxy",
    "IteratorProxy",
    "ListProxy",
    "MakeAsyncProxyType",
    "MakeProxyType",
    "Namespace",
    "NamespaceProxy",
    "PoolProxy",
    "ProcessLocalSet",
    "RebuildProxy",
    "RemoteError",
    "Server",
    "SharedMemoryManager",
    "SharedMemoryServer",
    "State",
    "SyncManager",
    "Token",
    "Value",
    "ValueProxy",
    "all_methods",
    "convert_to_error",
    "dispatch",
    "listener_client",
    "public_methods",
]
