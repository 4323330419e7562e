"""`SyncManager`: what ``multiprocessing.Manager()`` gives, with every type of the library's."""

from __future__ import annotations

import multiprocessing.managers as library
from collections.abc import Callable
from typing import Any, Final

from fibernb.multiprocessing.context import default
from fibernb.multiprocessing.managers import patient
from fibernb.multiprocessing.managers.base import BaseManager
from fibernb.multiprocessing.managers.links import internal


class SyncManager(BaseManager, library.SyncManager):
    """Shares lists, dicts, queues, locks, events, namespaces, values, arrays and pools between processes."""


def _pool(*args: Any, **kwds: Any) -> Any:
    return default.Pool(*args, **kwds)


_OWN: Final[dict[str, Callable[..., object]]] = {
    "BoundedSemaphore": patient.BoundedSemaphore,
    "Condition": patient.Condition,
    "Event": patient.Event,
    "JoinableQueue": patient.Queue,
    "Lock": patient.Lock,
    "Pool": _pool,
    "Queue": patient.Queue,
    "RLock": patient.RLock,
    "Semaphore": patient.Semaphore,
}

for _typeid, (_make, _exposed, _returned, _proxytype) in internal.SyncManager._registry.items():
    _is_made = hasattr(library.SyncManager, _typeid)
    SyncManager.register(_typeid, _OWN.get(_typeid, _make), _proxytype, _exposed, _returned, create_method=_is_made)
